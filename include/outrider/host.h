/* The C API of Outrider's host: load any provider, check it, wire ports by name, run stages.
 *
 * One session belongs to one thread at a time. No function throws, prints or ends the process. Codes
 * are those of frt_v1.h; outrider_session_error tells the one-line reason of the last failure.
 */
#ifndef OUTRIDER_HOST_H_
#define OUTRIDER_HOST_H_
#include <stdint.h>

#include "outrider/frt_v1.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OUTRIDER_API __attribute__((visibility("default")))
#else
#define OUTRIDER_API
#endif

typedef struct outrider_session outrider_session;

/* [setup] Loads provider_path (RTLD_NOW | RTLD_LOCAL), opens config_json, checks everything the ABI
 * promises and adopts the runtime. On failure: a negative code, *out == NULL, and the one-line reason
 * in `reason` (may be NULL; cut to reason_bytes, always terminated). */
OUTRIDER_API int outrider_open(const char* provider_path, const char* config_json, outrider_session** out,
                               char* reason, uint64_t reason_bytes);
/* [setup] Adopts a runtime the caller made (retains it); nothing is loaded. */
OUTRIDER_API int outrider_adopt(const frt_model_runtime_v1* runtime, outrider_session** out, char* reason,
                                uint64_t reason_bytes);
/* Releases the runtime, then unloads the library. NULL is allowed. */
OUTRIDER_API void outrider_close(outrider_session* session);

OUTRIDER_API const frt_model_runtime_v1* outrider_runtime(const outrider_session* session);
OUTRIDER_API uint64_t outrider_fingerprint(const outrider_session* session);
OUTRIDER_API const char* outrider_identity(const outrider_session* session);
/* Reason of the last failed call on this session; never NULL. Valid until the next call. */
OUTRIDER_API const char* outrider_session_error(const outrider_session* session);

/* Ports. find returns the index or -2. */
OUTRIDER_API uint64_t outrider_n_ports(const outrider_session* session);
OUTRIDER_API const frt_runtime_port_desc* outrider_port(const outrider_session* session, uint64_t port);
OUTRIDER_API int outrider_find_port(const outrider_session* session, const char* name);

/* [hot] Verbs. The callee copies what set_input is given. Codes are the runtime's own; this host itself
 * answers -1 for an unknown port, a port of the other direction, data NULL with bytes above 0, written
 * NULL; -3 for a verb the runtime leaves NULL and for a SWAP port (a window on a device: data moves
 * through STAGED ports only); -8 when the runtime throws, returns a code above 0, or
 * claims to have stored more than capacity. Outputs are
 * delivered as the runtime gives them: whether its numbers are finite is the runtime's promise, not
 * checked here. *written is 0 unless the runtime set it (with -5: the bytes needed). */
OUTRIDER_API int outrider_set_input(outrider_session* session, uint32_t port, const void* data, uint64_t bytes);
OUTRIDER_API int outrider_get_output(outrider_session* session, uint32_t port, void* out, uint64_t capacity,
                                     uint64_t* written);

/* Stages in declared order. A step-only runtime, and one whose plan has graphs that this host cannot
 * launch but that has a step verb, shows one stage called "step". */
OUTRIDER_API uint64_t outrider_n_stages(const outrider_session* session);
OUTRIDER_API const char* outrider_stage_name(const outrider_session* session, uint64_t stage);
OUTRIDER_API int outrider_find_stage(const outrider_session* session, const char* name);
/* [hot] Runs one stage. -1 when a stage it waits for has not run since the last tick began. Running a
 * stage again is allowed and makes those that depend on it wait for their turn again. */
OUTRIDER_API int outrider_run_stage(outrider_session* session, uint64_t stage);
/* [hot] One tick: every stage in declared order; stops at the first failure. */
OUTRIDER_API int outrider_tick(outrider_session* session);
/* [hot] The whole model through the `step` verb; -3 when there is none. */
OUTRIDER_API int outrider_step(outrider_session* session);
/* Nanoseconds the last run of this stage took; 0 before the first. */
OUTRIDER_API int64_t outrider_stage_ns(const outrider_session* session, uint64_t stage);

/* Extension table by id, or NULL when the runtime does not offer it. */
OUTRIDER_API const void* outrider_extension(const outrider_session* session, uint64_t id, uint32_t min_version);

/* Where a provider of ours leaves the reason of a failed open on this thread. Providers find it with
 * dlsym(RTLD_DEFAULT, "outrider_open_reason_sink"); it copies the text. */
OUTRIDER_API void outrider_open_reason_sink(const char* text);
/* What was left there last on this thread; "" when nothing was, or an open has begun since. A host that
 * hides inside a provider (one that opens other providers) reads it through dlsym likewise. */
OUTRIDER_API const char* outrider_open_reason(void);

#ifdef __cplusplus
}
#endif
#endif /* OUTRIDER_HOST_H_ */
