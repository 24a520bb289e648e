// Convolutions over channels in blocks: what Ops::convolve does, cut into calls of the table.
#pragma once
#include "kernels/kernel_table.h"
#include "kernels/thread_pool.h"
#include "tensor/ops.h"

namespace outrider {

// [hot] The same bits for any number of threads and any table.
void convolve_channels(const ChannelConv& job, const KernelTable& table, ThreadPool& pool) noexcept;

}  // namespace outrider
