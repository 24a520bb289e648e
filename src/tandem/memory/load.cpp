#include "tandem/memory/load.h"

#include <exception>

#include "base/log.h"

namespace outrider::memory {
namespace {

// Calls what others wrote: an exception becomes an error that says what it said.
template <class Call>
auto fenced(const char* what, Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& e) {
    return make_error(Code::kFailed, "%s: %s", what, e.what());
  } catch (...) {
    return make_error(Code::kFailed, "%s: threw", what);
  }
}

// The mover for this process, and why there is none.
Mover ask_mover(const LoadOptions& options, std::string& why_not) {
  if (!options.hooks.coherent_warp) {
    why_not = "no coherent_warp hook";
    return {};
  }
  auto asked = fenced("coherent_warp", [&]() -> Result<Mover> {
    return Result<Mover>(options.hooks.coherent_warp());
  });
  if (!asked) {
    why_not = asked.error().text;
    return {};
  }
  if (!asked.value()) why_not = "coherent_warp gave nobody to move it";
  return std::move(asked.value());
}

void note(const LoadOptions& options, LoadStep step) {
  if (options.trace != nullptr) options.trace->push_back(step);
}

void move_output(WarpState& state, const LoadOptions& options, LoadedWarp& loaded) {
  loaded.asked = options.link_on && options.runtime_id != options.stock_runtime;
  if (!loaded.asked) {
    loaded.why_not = options.link_on ? "not moved on the stock runtime" : "the link is off";
    return;
  }
  const Mover mover = ask_mover(options, loaded.why_not);
  if (!mover) return;
  const auto moved = fenced("make_sendable", [&] { return mover(*state.program); });
  if (!moved) loaded.why_not = moved.error().text;
}

}  // namespace

const char* load_step_name(LoadStep step) {
  constexpr const char* kNames[] = {"digest",  "construct", "move",
                                    "warm_up", "identity",  "publish"};
  const auto index = static_cast<size_t>(step);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

Result<LoadedWarp> load_warp(const Artifact& artifact, const LoadOptions& options) {
  const std::string identity = artifact.identity ? artifact.identity() : std::string();
  note(options, LoadStep::kDigest);
  OUTRIDER_TRY(fenced("digest", artifact.check_digest));
  note(options, LoadStep::kConstruct);
  auto state = fenced("construct", artifact.construct);
  if (!state) return state.error();
  LoadedWarp loaded;
  loaded.state = std::move(state.value());
  if (loaded.state == nullptr || loaded.state->program == nullptr)
    return make_error(Code::kInvalid, "construct: gave no program");
  note(options, LoadStep::kMove);
  move_output(*loaded.state, options, loaded);
  note(options, LoadStep::kWarmUp);
  OUTRIDER_TRY(fenced("warm-up", [&] { return artifact.warm_up(*loaded.state); }));
  if (loaded.state->program->state() != Program::State::kLinked)
    return make_error(Code::kInvalid, "warm-up: the program did not run");
  note(options, LoadStep::kIdentity);
  if (artifact.identity && artifact.identity() != identity)
    return make_error(Code::kDevice,
                      "the artifact was replaced while it was loaded; load it again");
  note(options, LoadStep::kPublish);
  return loaded;
}

Result<std::unique_ptr<LinkWarp>> warp_for_link(WarpState& state, const std::string& why_not,
                                                const ProbeParts& probe, const Clock& clock) {
  Route route = route_of(*state.program, why_not);
  for (;;) {
    auto warp = LinkWarp::make(state, route, clock);
    if (!warp) return warp.error();
    const auto proven = fenced("probe", [&] { return probe_warp(*warp.value(), probe); });
    if (proven) {
      log_line(LogLevel::kInfo, "%s", route.line().c_str());
      return warp;
    }
    const bool stale = proven.code() == Code::kFailed;
    if (!stale || route.route == SendRoute::kStaged) {
      log_line(LogLevel::kWarn, "%s: refused: %s", route.line().c_str(), proven.error().text);
      return proven.error();
    }
    route.route = SendRoute::kStaged;
    std::snprintf(route.reason, sizeof route.reason, "%.150s", proven.error().text);
  }
}

LinkSide attach_warp(const Artifact& stock, const LoadedWarp& loaded, const LoadOptions& options,
                     const ProbeParts& probe, const Clock& clock) {
  LinkSide side;
  const auto refuse = [&](const char* why) {
    side.reason = why;
    log_line(LogLevel::kWarn, "link: the small model drives alone: %s", why);
    return std::move(side);
  };
  if (!options.link_on) {
    side.reason = "the link is off";
    return side;
  }
  auto own = fenced("model_warp", [&]() -> Result<WarpState*> {
    return options.hooks.model_warp ? options.hooks.model_warp() : nullptr;
  });
  if (!own) return refuse(own.error().text);
  WarpState* state = own.value();
  std::string why_not = loaded.why_not;
  if (state == nullptr) {
    if (stock.runtime_id != options.runtime_id) {
      const Error error =
          make_error(Code::kUnsupported,
                     "the stock warp was made for runtime %s, this one is %s; offer model_warp",
                     stock.runtime_id.c_str(), options.runtime_id.c_str());
      return refuse(error.text);
    }
    auto stock_loaded = load_warp(stock, options);
    if (!stock_loaded) return refuse(stock_loaded.error().text);
    side.stock = std::make_unique<LoadedWarp>(std::move(stock_loaded.value()));
    state = side.stock->state.get();
    why_not = side.stock->why_not;
  }
  auto warp = warp_for_link(*state, why_not, probe, clock);
  if (!warp) {
    side.reason = warp.error().text;  // its line is written
    side.stock.reset();
    return side;
  }
  side.warp = std::move(warp.value());
  return side;
}

}  // namespace outrider::memory
