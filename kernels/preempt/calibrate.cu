// The poll-free kernel with a timestamp at every tile boundary: how long a tile takes, by K and by residency.
#include "queue.cuh"

namespace {

// Records when its block's tiles ended, from the instant on at which the queue passed a task that all blocks share. Every block
// works until the queue is dry: were each given its number of tiles, fast blocks would leave, and the others work alone.
struct CalibratePolicy : PlainPolicy {
    const CalibrateArgs& calibrate;
    uint32_t popped = 0;
    uint32_t recorded = 0;

    __device__ __forceinline__ explicit CalibratePolicy(const CalibrateArgs& args) : calibrate(args) {}

    __device__ __forceinline__ uint32_t pop(const WorkArgs& work, uint32_t tiles) {
        popped = PlainPolicy::pop(work, tiles);
        return popped;
    }

    __device__ __forceinline__ void after_tile(uint32_t) {
        if (threadIdx.x != kLeader || popped < calibrate.record_from || recorded == calibrate.boundaries) return;
        // Never zero, so that what was not recorded shows.
        calibrate.boundary_ns[static_cast<uint64_t>(blockIdx.x) * calibrate.boundaries + recorded] =
            ptx::mov_globaltimer_lo() | 1;
        ++recorded;
    }
};

__device__ __forceinline__ void calibrate(const WorkArgs& work, const CalibrateArgs& args) {
    __shared__ QueueShared shared;
    CalibratePolicy policy(args);
    if (threadIdx.x == kLeader) begin_block(work);
    const uint32_t tiles = drain_queue(work, shared, policy);
    __syncthreads();
    if (threadIdx.x == kLeader) {
        count_sites(work, tiles, 0, 0);
        end_block(work, tiles, 0);
    }
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads, 5) void preempt_calibrate(const __grid_constant__ WorkArgs work,
                                                                            const __grid_constant__ CalibrateArgs args) {
    calibrate(work, args);
}
