// provider_onnx.so on driving graphs: ports, history, heads, action, the extension for servers.
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>

#include "base/json.h"
#include "host/conform.h"
#include "onnx/driving_support.h"
#include "support/hot_counter.h"

namespace outrider::onnx::test {
namespace {

namespace hot_counter = ::outrider::test::hot_counter;
using driving::Layout;

// ---- the transcription --------------------------------------------------------------------------

// The queued graph as a plain graph, its inputs made from lists that are shifted by one each frame.
// The graph has u8 pictures, f16 features and f32 desire.
class Plainly {
 public:
  explicit Plainly(const DrivingOnDisk& disk)
      : graph_(disk.config(R"("n_threads":1,"driving":"off")")) {
    EXPECT_TRUE(graph_.ok());
    reset();
  }
  void reset() {
    images_.assign(5, std::vector<uint8_t>(393216, 0));
    features_.assign(128, std::vector<uint16_t>(16384, 0));
    desire_.assign(132, std::vector<float>(8, 0.0f));
    previous_.assign(8, 0.0f);
    forget_hidden();
  }
  void forget_hidden() { hidden_.assign(16384, 0); }
  static std::vector<float> pulse_of(const std::vector<float>& level,
                                     std::vector<float>& previous) {
    std::vector<float> pulse(8, 0.0f);
    for (size_t i = 1; i < 8; ++i)
      if (level[i] - previous[i] > 0.99f) pulse[i] = level[i];
    previous = level;
    previous[0] = 0;
    return pulse;
  }
  // `good`: was the frame answered OK? Only then its hidden state is kept.
  std::vector<float> frame(const Frame& f, bool level = true, bool good = true) {
    const auto wish = level ? pulse_of(f.desire, previous_) : f.desire;
    shift(images_, f.image);
    shift(desire_, wish);
    shift(features_, hidden_);
    std::vector<uint8_t> img, big;
    for (const size_t row : {size_t{0}, size_t{4}}) {
      img.insert(img.end(), images_[row].begin(), images_[row].begin() + 196608);
      big.insert(big.end(), images_[row].begin() + 196608, images_[row].end());
    }
    std::vector<uint16_t> features;
    for (size_t row = 0; row < 128; row += 4)
      features.insert(features.end(), features_[row].begin(), features_[row].end());
    std::vector<float> desire;
    for (size_t group = 0; group < 132; group += 4)
      for (size_t i = 0; i < 8; ++i) {
        float most = desire_[group][i];
        for (size_t k = 1; k < 4; ++k) most = std::max(most, desire_[group + k][i]);
        desire.push_back(most);
      }
    set("img", img);
    set("big_img", big);
    set("features_buffer", features);
    set("desire_pulse", desire);
    if (!good) return {};  // what such a frame answered is not asked
    set("traffic_convention", f.traffic);
    set("action_t", f.action_t);
    EXPECT_EQ(graph_.step(), 0) << graph_.error();
    auto out = graph_.read("outputs");
    for (size_t i = 0; i < 16384; ++i) hidden_[i] = f32_to_f16(out[2066 + i]);
    return out;
  }

 private:
  template <class T>
  static void shift(std::deque<std::vector<T>>& queue, const std::vector<T>& row) {
    queue.pop_front();
    queue.push_back(row);
  }
  template <class T>
  void set(const char* name, const std::vector<T>& values) {
    EXPECT_EQ(graph_.get()->verbs.set_input(graph_.get()->self, graph_.port(name), values.data(),
                                            values.size() * sizeof(T), -1),
              0)
        << name << graph_.error();
  }
  Provider graph_;
  std::deque<std::vector<uint8_t>> images_;
  std::deque<std::vector<uint16_t>> features_;
  std::deque<std::vector<float>> desire_;
  std::vector<float> previous_;
  std::vector<uint16_t> hidden_;
};

// ---- contract -----------------------------------------------------------------------------------

TEST(DrivingConform, both_layouts_pass_the_contract_suite) {
  for (const Layout layout : {Layout::kQueued, Layout::kStateful}) {
    const DrivingOnDisk disk(layout);
    const char* keys = layout == Layout::kQueued
                           ? R"("n_threads":1)"
                           : R"("n_threads":1,"action":"plan","heads":"only")";
    host::ConformOptions options;
    options.strict = true;
    const auto report = host::conform(provider_path(), disk.config(keys), options);
    EXPECT_GT(report.passed, 35);
    EXPECT_EQ(report.failed, 0) << host::to_text(report);
  }
}

TEST(DrivingFace, ports_are_those_of_a_frame_whatever_the_layout) {
  std::vector<std::string> first;
  for (const Layout layout : {Layout::kQueued, Layout::kStateful}) {
    const DrivingOnDisk disk(layout);
    const Provider p(disk.config());
    ASSERT_TRUE(p.ok());
    std::vector<std::string> names;
    for (uint64_t i = 0; i < p.get()->n_ports; ++i) {
      const auto& port = p.get()->ports[i];
      std::string text = port.name;
      for (uint32_t d = 0; d < port.rank; ++d) text += " " + std::to_string(port.shape[d]);
      names.push_back(text);
    }
    if (first.empty()) first = names;
    EXPECT_EQ(names, first);
    EXPECT_EQ(names[0], "new_img 2 6 128 256");
    EXPECT_EQ(names[1], "desire 8");
    EXPECT_EQ(names[2], "traffic_convention 1 2");
    EXPECT_EQ(names[3], "action_t 1 2");
    EXPECT_EQ(names[4], "outputs 1 18452");
    EXPECT_EQ(names[5], "plan 33 15");
    EXPECT_EQ(names[6], "plan_std 33 15");
    EXPECT_EQ(p.get()->ports[0].dtype, uint32_t{FRT_DTYPE_U8});
    ASSERT_EQ(p.plan()->n_stages, 2u);
    EXPECT_STREQ(p.plan()->stages[0].name, "reset");
    EXPECT_STREQ(p.plan()->stages[1].name, "infer");
  }
}

// ---- history ------------------------------------------------------------------------------------

TEST(DrivingHistory, the_queued_layout_computes_what_shifted_lists_give) {
  const DrivingOnDisk disk(Layout::kQueued);
  const Provider p(disk.config());
  Plainly plainly(disk);
  for (uint32_t i = 0; i < 24; ++i) {
    if (i == 15) {
      ASSERT_EQ(p.stage("reset"), 0);
      plainly.reset();
    }
    const Frame f = frame_of(i);
    ASSERT_EQ(set_frame(p, f), 0) << p.error();
    ASSERT_EQ(p.stage("infer"), 0) << p.error();
    ASSERT_EQ(p.read("outputs"), plainly.frame(f)) << i;
  }
}

TEST(DrivingHistory, I20_both_layouts_of_one_seed_give_the_same_bits_and_so_behind_a_reset) {
  const DrivingOnDisk queued(Layout::kQueued, 7), stateful(Layout::kStateful, 7);
  const Provider a(queued.config()), b(stateful.config());
  std::vector<float> before;
  for (uint32_t i = 0; i < 140; ++i) {
    for (const Provider* p : {&a, &b}) {
      if (i == 136) {
        ASSERT_EQ(p->stage("reset"), 0);
      }
    }
    const Frame f = frame_of(i);
    std::vector<float> out[2];
    for (const Provider* p : {&a, &b}) {
      ASSERT_EQ(set_frame(*p, f), 0);
      ASSERT_EQ(p->stage("infer"), 0) << p->error();
      out[p == &b] = p->read("outputs");
    }
    ASSERT_EQ(out[0], out[1]) << i;
    EXPECT_NE(out[0], before);
    before = out[0];
  }
}

TEST(DrivingHistory, every_input_reaches_the_outputs) {
  const DrivingOnDisk disk(Layout::kQueued);
  const auto drive = [&](const std::function<void(uint32_t, Frame&)>& change) {
    const Provider p(disk.config());
    for (uint32_t i = 0; i < 9; ++i) {
      Frame f = frame_of(i);
      change(i, f);
      EXPECT_EQ(set_frame(p, f), 0);
      EXPECT_EQ(p.stage("infer"), 0);
    }
    return p.read("outputs");
  };
  const auto usual = drive([](uint32_t, Frame&) {});
  EXPECT_NE(usual, drive([](uint32_t i, Frame& f) { f.image[100] ^= i == 8 ? 0xFF : 0; }));
  EXPECT_NE(usual, drive([](uint32_t i, Frame& f) { f.image[200000] ^= i == 4 ? 0xFF : 0; }))
      << "the picture of four frames ago";
  EXPECT_NE(usual, drive([](uint32_t i, Frame& f) { f.image[9] ^= i == 0 ? 0xFF : 0; }))
      << "an old picture, by its hidden state";
  EXPECT_NE(usual, drive([](uint32_t i, Frame& f) { f.desire[7] = i == 0 ? 1.0f : 0.0f; }));
  EXPECT_NE(usual, drive([](uint32_t i, Frame& f) { f.traffic[0] += i == 8 ? 1.0f : 0.0f; }));
  EXPECT_NE(usual, drive([](uint32_t i, Frame& f) { f.action_t[1] += i == 8 ? 1.0f : 0.0f; }));
}

TEST(DrivingHistory, S17e_a_reset_is_in_place_quick_and_a_fresh_start) {
  for (const Layout layout : {Layout::kQueued, Layout::kStateful}) {
    const DrivingOnDisk disk(layout);
    const Provider used(disk.config()), fresh(disk.config());
    const void* found = nullptr;
    ASSERT_EQ(used.get()->query_extension(used.get(), OUTRIDER_EXT_HISTORY, 1, &found), 0);
    const auto* history = static_cast<const outrider_history_v1*>(found);
    for (uint32_t i = 0; i < 20; ++i) {
      ASSERT_EQ(set_frame(used, frame_of(i + 1000)), 0);
      ASSERT_EQ(used.stage("infer"), 0);
    }
    if (hot_counter::available()) hot_counter::arm();
    auto best = std::chrono::nanoseconds::max();
    for (int i = 0; i < 5; ++i) {
      const auto start = std::chrono::steady_clock::now();
      ASSERT_EQ(history->reset(history->self), 0);
      best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - start);
    }
    if (hot_counter::available()) {
      EXPECT_EQ(hot_counter::disarm().total(), 0u);
      EXPECT_LT(best.count(), 1'000'000);
    }
    used.read("outputs");
    EXPECT_EQ(used.last(), FRT_ERR_NOT_READY) << "outputs of before the reset are gone";
    for (uint32_t i = 0; i < 30; ++i) {
      const Frame f = frame_of(i);
      for (const Provider* p : {&used, &fresh}) {
        ASSERT_EQ(set_frame(*p, f), 0);
        ASSERT_EQ(p->stage("infer"), 0);
      }
      ASSERT_EQ(used.read("outputs"), fresh.read("outputs")) << i;
    }
  }
}

// ---- the extension for servers ------------------------------------------------------------------

struct Answered {
  int code = 0;
  outrider_driving_answer_v1 answer{};
  std::vector<float> outputs;
};
// `hidden`: comes with the frame; nullptr: the runtime's own.
Answered ask(const outrider_driving_v1* d, const Frame& f, uint32_t flags = 0,
             const std::vector<float>* hidden = nullptr) {
  std::vector<float> packed = f.desire;
  packed.insert(packed.end(), f.traffic.begin(), f.traffic.end());
  packed.insert(packed.end(), f.action_t.begin(), f.action_t.end());
  std::vector<std::byte> odd(packed.size() * 4 + 1);  // at an odd address, as behind a message
  std::memcpy(odd.data() + 1, packed.data(), packed.size() * 4);
  outrider_driving_frame_v1 frame{
      sizeof frame, flags, f.image.data(), f.image.size(), odd.data() + 1, packed.size() * 4,
      nullptr,      0};
  std::vector<std::byte> brought(1);
  if (hidden != nullptr) {
    brought.resize(hidden->size() * 4 + 1);
    std::memcpy(brought.data() + 1, hidden->data(), hidden->size() * 4);
    frame.hidden = brought.data() + 1;
    frame.hidden_bytes = hidden->size() * 4;
  }
  Answered a;
  a.answer.struct_size = sizeof a.answer;
  a.code = d->run(d->self, &frame, &a.answer);
  if (a.answer.outputs != nullptr)
    a.outputs.assign(a.answer.outputs, a.answer.outputs + d->n_outputs);
  return a;
}

TEST(DrivingFrames, are_bit_exact_through_resets_sessions_and_failures) {
  const DrivingOnDisk disk(Layout::kQueued);
  const Provider p(disk.config());
  const auto* d = driving_of(p);
  ASSERT_NE(d, nullptr);
  EXPECT_EQ(d->frames_bytes, 393216u);
  EXPECT_EQ(d->n_packed, 12u);
  EXPECT_EQ(d->n_outputs, 18452u);
  EXPECT_EQ(d->hidden_begin, 2066u);
  EXPECT_EQ(d->hidden_end, 18450u);
  EXPECT_NE(std::string(d->spec_json).find(R"("plan":[917,1907])"), std::string::npos);
  Plainly plainly(disk);
  for (uint32_t i = 0; i < 20; ++i) {
    Frame f = frame_of(i);
    if (i == 7) {
      d->forget_hidden(d->self);
      plainly.forget_hidden();
    }
    if (i == 11) plainly.reset();
    const bool bad = i == 4;
    if (bad) f.traffic[0] = NAN;  // seen by the graph in this frame alone
    const Answered a = ask(d, f, i == 11 ? OUTRIDER_DRIVING_RESET : 0);
    ASSERT_EQ(a.code, 0);
    EXPECT_EQ(a.answer.status, uint32_t(bad ? OUTRIDER_DRIVING_NOT_FINITE : OUTRIDER_DRIVING_OK));
    const auto wanted = plainly.frame(f, false, !bad);
    ASSERT_EQ(a.outputs.size(), 18452u) << "outputs come with NOT_FINITE too";
    if (!bad) {
      ASSERT_EQ(a.outputs, wanted) << i;
    }
    EXPECT_GT(a.answer.run_ns, 0u);
    EXPECT_GE(a.answer.total_ns, a.answer.run_ns + a.answer.stage_ns);
  }
}

TEST(DrivingFrames, a_wrong_length_touches_nothing) {
  const DrivingOnDisk disk(Layout::kStateful);
  const Provider p(disk.config()), other(disk.config());
  const auto *d = driving_of(p), *o = driving_of(other);
  Frame small = frame_of(1, 393215), large = frame_of(1, 393217), short_desire = frame_of(1);
  short_desire.desire.pop_back();
  for (uint32_t i = 0; i < 6; ++i) {
    for (const Frame* bad : {&small, &large, &short_desire}) {
      const Answered a = ask(d, *bad, OUTRIDER_DRIVING_RESET);
      EXPECT_EQ(a.code, 0);
      EXPECT_EQ(a.answer.status, uint32_t{OUTRIDER_DRIVING_BAD_SHAPE});
      EXPECT_EQ(a.answer.outputs, nullptr);
    }
    ASSERT_EQ(ask(d, frame_of(i)).outputs, ask(o, frame_of(i)).outputs) << i;
  }
  EXPECT_EQ(d->run(d->self, nullptr, nullptr), FRT_ERR_INVALID);
  outrider_driving_frame_v1 frame{4, 0, nullptr, 0, nullptr, 0, nullptr, 0};
  outrider_driving_answer_v1 answer{};
  answer.struct_size = sizeof answer;
  EXPECT_EQ(d->run(d->self, &frame, &answer), FRT_ERR_INVALID);
}

// As a device of wire version 2 does, which keeps the hidden state itself.
TEST(DrivingFrames, push_the_hidden_state_that_comes_with_them) {
  const DrivingOnDisk disk(Layout::kQueued);
  const Provider keeps(disk.config()), brings(disk.config()), stale(disk.config()),
      forgets(disk.config()), zeros(disk.config());
  const size_t n = 16384;
  const std::vector<float> none(n);
  std::vector<float> last = none, before_last = none;
  bool differs = false;
  for (uint32_t i = 0; i < 12; ++i) {
    const Frame f = frame_of(i);
    const uint32_t flags = i == 0 ? OUTRIDER_DRIVING_RESET : 0;
    const auto kept = ask(driving_of(keeps), f, flags).outputs;
    ASSERT_EQ(ask(driving_of(brings), f, flags, &last).outputs, kept) << i;
    differs |= ask(driving_of(stale), f, flags, &before_last).outputs != kept;
    driving_of(forgets)->forget_hidden(driving_of(forgets)->self);
    ASSERT_EQ(ask(driving_of(zeros), f, flags, &none).outputs,
              ask(driving_of(forgets), f, flags).outputs)
        << i;
    before_last =
        std::exchange(last, std::vector<float>(kept.begin() + 2066, kept.begin() + 18450));
  }
  EXPECT_TRUE(differs) << "what was brought is what was pushed";
  // A reset clears the queues and the kept state, not what is brought along.
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t flags = i == 0 ? OUTRIDER_DRIVING_RESET : 0;
    const auto without = ask(driving_of(keeps), frame_of(i), flags).outputs;
    const auto with = ask(driving_of(brings), frame_of(i), flags, i == 0 ? &last : nullptr).outputs;
    EXPECT_EQ(with == without, i % 4 != 3) << i << ": seen every fourth frame, as any hidden state";
  }
  std::vector<float> short_hidden(n - 1);
  const Answered refused = ask(driving_of(brings), frame_of(9), 0, &short_hidden);
  EXPECT_EQ(refused.answer.status, uint32_t{OUTRIDER_DRIVING_BAD_SHAPE});
}

TEST(DrivingFrames, ports_and_frames_share_one_history) {
  const DrivingOnDisk disk(Layout::kStateful);
  const Provider mixed(disk.config(R"("n_threads":1,"desire":"pulse")")), frames(disk.config());
  for (uint32_t i = 0; i < 8; ++i) {
    const Frame f = frame_of(i);
    std::vector<float> got;
    if (i % 2 == 0) {
      ASSERT_EQ(set_frame(mixed, f), 0);
      ASSERT_EQ(mixed.stage("infer"), 0);
      got = mixed.read("outputs");
    } else {
      got = ask(driving_of(mixed), f).outputs;
      mixed.read("outputs");
      EXPECT_EQ(mixed.last(), FRT_ERR_NOT_READY);
    }
    ASSERT_EQ(got, ask(driving_of(frames), f).outputs) << i;
  }
}

// ---- heads, action ------------------------------------------------------------------------------

TEST(DrivingFace, heads_are_read_from_the_outputs) {
  const DrivingOnDisk disk(Layout::kQueued);
  const Provider p(disk.config(R"("n_threads":1,"heads":"required","action":"v16")"));
  ASSERT_TRUE(p.ok());
  ASSERT_EQ(set_frame(p, frame_of(3)), 0);
  EXPECT_EQ(p.stage("infer"), FRT_ERR_INVALID) << "the speed is missing";
  ASSERT_EQ(p.set("v_ego", {10}), 0);
  ASSERT_EQ(p.stage("infer"), 0) << p.error();
  const auto raw = p.read("outputs");
  const auto plan = p.read("plan"), deviation = p.read("plan_std"),
             probability = p.read("lead_prob"), state = p.read("desire_state"),
             action = p.read("action");
  for (size_t i = 0; i < 495; ++i) {
    ASSERT_EQ(plan[i], raw[917 + i]);
    ASSERT_NEAR(deviation[i], std::exp(raw[917 + 495 + i]), 1e-4);
  }
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(probability[i], 1 / (1 + std::exp(-raw[2051 + i])), 1e-6);
  float sum = 0;
  for (const float v : state) sum += v;
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_NEAR(action[0], raw[2062] / 100, 1e-6);
  EXPECT_NEAR(action[1], 0.15351828f * raw[2063], 1e-6);
  EXPECT_EQ(action[2], 0.0f);
  EXPECT_EQ(p.get()->ports[p.port("action")].modality, uint32_t{FRT_MODALITY_ACTION});
}

TEST(DrivingFace, FC22_takes_no_value_that_is_no_number) {
  const DrivingOnDisk disk(Layout::kStateful);
  const Provider p(disk.config());
  EXPECT_EQ(p.set("action_t", {0.1f, NAN}), FRT_ERR_INVALID);
  EXPECT_EQ(p.set("desire", {0, 0, 0, 0, INFINITY, 0, 0, 0}), FRT_ERR_INVALID);
  EXPECT_EQ(p.set("desire", {0, 0, 0}), FRT_ERR_INVALID);
  EXPECT_EQ(p.stage("infer"), FRT_ERR_INVALID);
  EXPECT_EQ(p.counter("refused_inputs"), 3);
}

TEST(DrivingHotPath, a_tick_takes_no_heap_no_lock_and_writes_nothing) {
  if (!hot_counter::available()) GTEST_SKIP() << "sanitizers stand in the place of the counter";
  for (const Layout layout : {Layout::kQueued, Layout::kStateful}) {
    const DrivingOnDisk disk(layout);
    const Provider p(disk.config(R"("n_threads":1,"action":"plan")"));
    ASSERT_TRUE(p.ok());
    const Frame f = frame_of(1);
    ASSERT_EQ(set_frame(p, f), 0);
    ASSERT_EQ(p.set("v_ego", {3}), 0);
    const auto* d = driving_of(p);
    const auto& verbs = p.get()->verbs;
    void* self = p.get()->self;
    const uint32_t image = p.port("new_img"), plan = p.port("plan"), action = p.port("action");
    std::vector<float> packed(12, 0.0f), out(495);
    outrider_driving_frame_v1 frame{sizeof frame,   OUTRIDER_DRIVING_RESET,
                                    f.image.data(), f.image.size(),
                                    packed.data(),  48,
                                    nullptr,        0};
    outrider_driving_answer_v1 answer{};
    answer.struct_size = sizeof answer;
    uint64_t written = 0;
    int worst = 0;
    hot_counter::arm();
    for (int tick = 0; tick < 10; ++tick) {
      worst = std::min(worst, verbs.set_input(self, image, f.image.data(), f.image.size(), -1));
      worst = std::min(worst, verbs.step(self));
      worst = std::min(worst, verbs.get_output(self, plan, out.data(), 495 * 4, &written, -1));
      worst = std::min(worst, verbs.get_output(self, action, out.data(), 12, &written, -1));
      worst = std::min(worst, d->run(d->self, &frame, &answer));
      d->forget_hidden(d->self);
      verbs.set_input(self, image, f.image.data(), 5, -1);
      verbs.set_input(self, image, f.image.data(), f.image.size(), -1);
    }
    const auto counts = hot_counter::disarm();
    EXPECT_EQ(worst, 0) << p.error();
    EXPECT_EQ(counts.total(), 0u) << hot_counter::describe(counts);
  }
}

// ---- other graphs, hostile files ----------------------------------------------------------------

// A queued graph of a few values: outputs = 12 pictures' means, pulses, scalars, features, extra.
struct Small {
  int image_type = ::onnx::TensorProto::UINT8, scalar_type = ::onnx::TensorProto::FLOAT;
  bool half_output = false, extra = false;
  int extra_type = ::onnx::TensorProto::FLOAT;
  std::string slices = R"({"hidden_state":[0,2],"lead_prob":[2,5]})";
  std::vector<std::pair<std::string, std::string>> more;
  ModelMaker make() const {
    ModelMaker m;
    for (const char* name : {"img", "big_img"}) m.input(name, {1, 12, 1, 2}, image_type);
    m.input("features_buffer", {1, 2, 2}, scalar_type)
        .input("desire_pulse", {1, 2, 3}, scalar_type);
    m.input("traffic_convention", {1, 2}, scalar_type).input("action_t", {1, 2}, scalar_type);
    if (extra) m.input("speed", {1}, extra_type);
    const int out_type = half_output ? ::onnx::TensorProto::FLOAT16 : ::onnx::TensorProto::FLOAT;
    std::vector<std::string> parts;
    const auto flat = [&](const std::string& name) {
      set_int(m.node("Cast", {name}, {name + "_f"}), "to", ::onnx::TensorProto::FLOAT);
      set_int(m.node("Flatten", {name + "_f"}, {name + "_row"}), "axis", 0);
      parts.push_back(name + "_row");
    };
    for (const char* name :
         {"features_buffer", "traffic_convention", "action_t", "desire_pulse", "img", "big_img"})
      flat(name);
    if (extra) flat("speed");
    set_int(m.node("Concat", parts, {"all"}), "axis", 1);
    set_int(m.node("Cast", {"all"}, {"outputs"}), "to", out_type);
    m.output("outputs", {1, 4 + 2 + 2 + 6 + 48 + (extra ? 1 : 0)}, out_type);
    const auto add = [&](const std::string& key, const std::string& value) {
      auto* entry = m.model.add_metadata_props();
      entry->set_key(key);
      entry->set_value(value);
    };
    if (!slices.empty()) add("output_slices", slices);
    for (const auto& [key, value] : more) add(key, value);
    return m;
  }
};

TEST(DrivingGraphs, of_every_element_type_see_the_same_values) {
  std::vector<float> first;
  for (const int image :
       {::onnx::TensorProto::UINT8, ::onnx::TensorProto::FLOAT16, ::onnx::TensorProto::FLOAT})
    for (const int scalar : {::onnx::TensorProto::FLOAT16, ::onnx::TensorProto::FLOAT})
      for (const bool half : {false, true}) {
        Small small;
        small.image_type = image;
        small.scalar_type = scalar;
        small.half_output = half;
        const OnDisk disk(small.make());
        const Provider p(disk.config(R"("frame_skip":2)"));
        ASSERT_TRUE(p.ok());
        std::vector<float> out;
        for (int tick = 1; tick <= 5; ++tick) {
          std::vector<uint8_t> frames(24);
          for (size_t i = 0; i < 24; ++i)
            frames[i] = static_cast<uint8_t>(tick * 40 + static_cast<int>(i));
          ASSERT_EQ(p.get()->verbs.set_input(p.get()->self, 0, frames.data(), 24, -1), 0);
          ASSERT_EQ(p.set("desire", {0, static_cast<float>(tick % 2), 0}), 0);
          ASSERT_EQ(p.set("traffic_convention", {0.5f, static_cast<float>(tick)}), 0);
          ASSERT_EQ(p.set("action_t", {0.25f, 2}), 0);
          ASSERT_EQ(p.stage("infer"), 0) << p.error();
          out = p.read("outputs");
        }
        ASSERT_EQ(out.size(), 62u);
        if (first.empty()) first = out;
        EXPECT_EQ(out, first) << image << scalar << half;
        EXPECT_EQ(out[5], 5.0f) << "traffic_convention";
        EXPECT_EQ(out[14], 120.0f) << "img: the picture of two frames ago, 3 * 40";
        EXPECT_EQ(out[14 + 12], 200.0f) << "then the newest";
        EXPECT_EQ(p.read("lead_prob").size(), 3u);
      }
}

TEST(DrivingGraphs, what_else_a_graph_reads_is_a_port) {
  Small small;
  small.extra = true;
  const OnDisk disk(small.make());
  const Provider p(disk.config());
  ASSERT_TRUE(p.ok());
  EXPECT_STREQ(p.get()->ports[4].name, "speed");
  const std::vector<uint8_t> frames(24);
  ASSERT_EQ(p.get()->verbs.set_input(p.get()->self, 0, frames.data(), 24, -1), 0);
  p.set("desire", {0, 0, 0});
  p.set("traffic_convention", {0, 0});
  p.set("action_t", {0, 0});
  EXPECT_EQ(p.stage("infer"), FRT_ERR_INVALID);
  const auto* d = driving_of(p);
  Frame f = frame_of(0, 24);
  f.desire.resize(3);
  EXPECT_EQ(ask(d, f).answer.status, uint32_t{OUTRIDER_DRIVING_INFER_FAILED});
  ASSERT_EQ(p.set("speed", {7}), 0);
  ASSERT_EQ(p.stage("infer"), 0) << p.error();
  EXPECT_EQ(p.read("outputs")[62], 7.0f);
  EXPECT_EQ(ask(d, f).answer.status, uint32_t{OUTRIDER_DRIVING_OK});
}

TEST(DrivingGraphs, a_truth_value_is_0_or_1_as_for_a_plain_graph) {
  Small small;
  small.extra = true;
  small.extra_type = ::onnx::TensorProto::BOOL;
  const OnDisk disk(small.make());
  for (const char* driving : {R"("driving":"on")", R"("driving":"off")"}) {
    const Provider p(disk.config(driving));
    ASSERT_TRUE(p.ok());
    uint32_t port = 0;
    while (std::string(p.get()->ports[port].name) != "speed") ++port;
    const auto set = [&](uint8_t value) {
      return p.get()->verbs.set_input(p.get()->self, port, &value, 1, -1);
    };
    EXPECT_EQ(set(2), FRT_ERR_INVALID) << driving;
    EXPECT_EQ(p.error(), "speed: value 0 is 2, allowed are 0 and 1");
    EXPECT_EQ(set(1), 0) << driving;
  }
}

TEST(DrivingOpen, its_description_is_json_and_tells_the_files_words_and_size) {
  Small small;
  small.more = {{"model_checkpoint", "a \"name\"\n\\ gr\xC3\xBC\xC3\x9F"}};
  const OnDisk disk(small.make());
  const Provider p(disk.config());
  ASSERT_TRUE(p.ok());
  const auto manifest = Json::parse(p.get()->exp->manifest_json);
  ASSERT_TRUE(manifest) << manifest.error().text;
  EXPECT_EQ(manifest.value().find("checkpoint")->text(), small.more[0].second);
  EXPECT_EQ(manifest.value().find("weights_bytes")->integer(),
            static_cast<int64_t>(std::filesystem::file_size(disk.path())));
}

TEST(DrivingOpen, FC47_FC48_hostile_metadata_and_keys_are_refused_in_words) {
  const auto code = [](const Small& small, const std::string& keys = "") {
    const OnDisk disk(small.make());
    return Provider(disk.config(keys)).code();
  };
  EXPECT_EQ(code({}), 0);
  Small bad;
  for (const char* slices :
       {"x", "{}", R"({"hidden_state":[0,3]})", R"({"plan":[60,99]})", R"({"a":[5,4]})",
        "Y3Bvc2l4CnN5c3RlbQooUydpZCcKdFIu", "gASVCQAAAAAAAAB9lC4="}) {
    bad.slices = slices;
    EXPECT_LT(code(bad), 0) << slices;
    EXPECT_EQ(code(bad, R"("driving":"off")"), 0) << "a plain graph all the same";
  }
  Small none;
  none.slices = "";
  EXPECT_EQ(code(none), 0) << "a plain graph";
  EXPECT_EQ(code(none, R"("driving":"on")"), FRT_ERR_NOT_FOUND);
  Small twice;
  twice.more = {{"output_slices", "{}"}};
  EXPECT_EQ(code(twice), FRT_ERR_NOT_FOUND);
  Small integer;
  integer.image_type = ::onnx::TensorProto::INT32;
  EXPECT_EQ(code(integer), FRT_ERR_UNSUPPORTED);
  for (const auto& [keys, wanted] : std::initializer_list<std::pair<const char*, int>>{
           {R"("driving":"yes")", FRT_ERR_INVALID},
           {R"("frame_skip":0)", FRT_ERR_INVALID},
           {R"("frame_skip":65)", FRT_ERR_INVALID},
           {R"("frame_skip":64)", 0},
           {R"("heads":"all")", FRT_ERR_INVALID},
           {R"("heads":"required")", FRT_ERR_NOT_FOUND},
           {R"("heads":"only")", FRT_ERR_NOT_FOUND},
           {R"("heads":"off")", 0},
           {R"("action":"v16")", FRT_ERR_NOT_FOUND},
           {R"("action":"v12")", FRT_ERR_INVALID},
           {R"("desire":"both")", FRT_ERR_INVALID},
           {R"("history":2)", FRT_ERR_INVALID},
           {R"("state_pairs":"none")", FRT_ERR_INVALID},
           {R"("stats_path":"/nowhere")", FRT_ERR_INVALID}})
    EXPECT_EQ(code({}, keys), wanted) << keys;
  const OnDisk plain(policy());
  EXPECT_EQ(Provider(plain.config(R"("driving":"on")")).code(), FRT_ERR_NOT_FOUND);
  EXPECT_EQ(Provider(plain.config()).code(), 0);
}

}  // namespace
}  // namespace outrider::onnx::test
