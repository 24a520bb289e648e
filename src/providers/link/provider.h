// From a Device to a frt_model_runtime_v1: the host's ports, plan and identity, one upkeep thread.
#pragma once
#include <memory>

#include "link/client/device.h"
#include "link/jetlink/client/device.h"
#include "outrider/frt_v1.h"
#include "providers/link/open_config.h"

namespace outrider {

// Takes the device over. Errors: kInvalid and kUnsupported when what the host describes cannot be
// mirrored; kNoMemory.
Result<frt_model_runtime_v1*> publish_remote_runtime(std::unique_ptr<link::Device> device,
                                                     const RemoteConfig& config);

// The same for a Jetlink host: the ports of a driving graph, stages reset and infer (or send and
// receive).
Result<frt_model_runtime_v1*> publish_jetlink_runtime(std::unique_ptr<link::jetlink::Device> device,
                                                      const RemoteConfig& config);

}  // namespace outrider
