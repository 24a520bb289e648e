// The C face: argument checks and the border where exceptions end. Everything else is SessionCore.
#include <cstdio>
#include <new>

#include "abi/probe.h"
#include "host/session_core.h"
#include "outrider/host.h"

using outrider::Code;
using outrider::Result;
using outrider::host::SessionCore;

struct outrider_session {
  std::unique_ptr<SessionCore> core;
};

namespace {

void put_reason(char* reason, uint64_t reason_bytes, const char* text) {
  if (reason != nullptr && reason_bytes > 0) outrider::host::copy_line(reason, reason_bytes, text);
}

template <class Make>
int make_session(outrider_session** out, char* reason, uint64_t reason_bytes,
                 Make&& make) noexcept {
  put_reason(reason, reason_bytes, "");
  if (out == nullptr) {
    put_reason(reason, reason_bytes, "out is NULL; it must point at a session pointer");
    return FRT_ERR_INVALID;
  }
  *out = nullptr;
  try {
    auto session = std::make_unique<outrider_session>();
    auto core = make();
    if (!core) {
      put_reason(reason, reason_bytes, core.error().text);
      return to_abi(core.error().code);
    }
    session->core = std::move(core.value());
    *out = session.release();
    return FRT_OK;
  } catch (const std::bad_alloc&) {
    put_reason(reason, reason_bytes, "host: out of memory while opening a session");
    return FRT_ERR_STORAGE;
  } catch (...) {
    put_reason(reason, reason_bytes, "host: unexpected exception while opening a session");
    return FRT_ERR_FAILED;
  }
}

}  // namespace

extern "C" {

int outrider_open(const char* provider_path, const char* config_json, outrider_session** out,
                  char* reason, uint64_t reason_bytes) {
  return make_session(out, reason, reason_bytes, [&] {
    return SessionCore::open(provider_path, config_json, outrider::host::monotonic_clock());
  });
}

int outrider_adopt(const frt_model_runtime_v1* runtime, outrider_session** out, char* reason,
                   uint64_t reason_bytes) {
  return make_session(out, reason, reason_bytes, [&] {
    return SessionCore::adopt(runtime, outrider::host::monotonic_clock());
  });
}

void outrider_close(outrider_session* session) {
  delete session;
}

const frt_model_runtime_v1* outrider_runtime(const outrider_session* session) {
  return session == nullptr ? nullptr : &session->core->runtime();
}

uint64_t outrider_fingerprint(const outrider_session* session) {
  return session == nullptr ? 0 : session->core->runtime().exp->fingerprint;
}

const char* outrider_identity(const outrider_session* session) {
  return session == nullptr ? "" : session->core->runtime().exp->identity;
}

const char* outrider_session_error(const outrider_session* session) {
  return session == nullptr ? "session is NULL" : session->core->error();
}

uint64_t outrider_n_ports(const outrider_session* session) {
  return session == nullptr ? 0 : session->core->runtime().n_ports;
}

const frt_runtime_port_desc* outrider_port(const outrider_session* session, uint64_t port) {
  return port >= outrider_n_ports(session) ? nullptr : &session->core->runtime().ports[port];
}

int outrider_find_port(const outrider_session* session, const char* name) {
  return session == nullptr ? FRT_ERR_INVALID : session->core->find_port(name);
}

int outrider_set_input(outrider_session* session, uint32_t port, const void* data, uint64_t bytes) {
  return session == nullptr ? FRT_ERR_INVALID : session->core->set_input(port, data, bytes);
}

int outrider_get_output(outrider_session* session, uint32_t port, void* out, uint64_t capacity,
                        uint64_t* written) {
  if (written != nullptr) *written = 0;
  return session == nullptr ? FRT_ERR_INVALID
                            : session->core->get_output(port, out, capacity, written);
}

uint64_t outrider_n_stages(const outrider_session* session) {
  return session == nullptr ? 0 : session->core->order().size();
}

const char* outrider_stage_name(const outrider_session* session, uint64_t stage) {
  return stage >= outrider_n_stages(session) ? nullptr
                                             : session->core->order().stages()[stage].name.c_str();
}

int outrider_find_stage(const outrider_session* session, const char* name) {
  return session == nullptr ? FRT_ERR_INVALID : session->core->find_stage(name);
}

int outrider_run_stage(outrider_session* session, uint64_t stage) {
  return session == nullptr ? FRT_ERR_INVALID : session->core->run_stage(stage);
}

int outrider_tick(outrider_session* session) {
  return session == nullptr ? FRT_ERR_INVALID : session->core->tick();
}

int outrider_step(outrider_session* session) {
  return session == nullptr ? FRT_ERR_INVALID : session->core->step();
}

int64_t outrider_stage_ns(const outrider_session* session, uint64_t stage) {
  return stage >= outrider_n_stages(session) ? 0 : session->core->order().last_ns(stage);
}

const void* outrider_extension(const outrider_session* session, uint64_t id, uint32_t min_version) {
  if (session == nullptr || min_version == 0) return nullptr;
  const void* table = nullptr;
  outrider::abi::query_extension(&session->core->runtime(), id, min_version, &table);
  return table;
}

}  // extern "C"
