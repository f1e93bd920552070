// The poll-free persistent kernel: the fastest drain of the queue in this tree, and what polling is compared with.
#include "queue.cuh"

namespace {

__device__ __forceinline__ void drain(const WorkArgs& work) {
    __shared__ QueueShared shared;
    PlainPolicy policy;
    if (threadIdx.x == kLeader) begin_block(work);
    const uint32_t tiles = drain_queue(work, shared, policy);
    __syncthreads();
    if (threadIdx.x == kLeader) {
        count_sites(work, tiles, 0, 0);
        end_block(work, tiles, 0);
    }
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads, 5) void preempt_drain(const __grid_constant__ WorkArgs work) {
    drain(work);
}
