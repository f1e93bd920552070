// The poll-free kernel with a timestamp at every tile boundary: how long a tile takes, by K and by residency.
#include "queue.cuh"

namespace {

constexpr uint32_t kNoTask = 0xFFFFFFFFu;

// Pops a fixed number of tiles for its block, so that every block records equally many.
struct CalibratePolicy : PlainPolicy {
    const CalibrateArgs& calibrate;
    uint32_t popped = 0;
    uint32_t boundary_ns = 0;

    __device__ __forceinline__ explicit CalibratePolicy(const CalibrateArgs& args) : calibrate(args) {}

    __device__ __forceinline__ uint32_t pop(const WorkArgs& work, uint32_t tiles) {
        if (popped == calibrate.quota) return kNoTask;
        ++popped;
        return PlainPolicy::pop(work, tiles);
    }

    __device__ __forceinline__ void after_tile(uint32_t tiles) {
        if (threadIdx.x != kLeader) return;
        const uint32_t now_ns = ptx::mov_globaltimer_lo();
        const uint32_t recorded = tiles - 1 - calibrate.warmup_tiles;  // Wraps above `tiles` during warm-up.
        if (recorded < calibrate.tiles) {
            calibrate.wall_ns[static_cast<uint64_t>(blockIdx.x) * calibrate.tiles + recorded] = now_ns - boundary_ns;
        }
        boundary_ns = now_ns;
    }
};

__device__ __forceinline__ void calibrate(const WorkArgs& work, const CalibrateArgs& args) {
    __shared__ QueueShared shared;
    CalibratePolicy policy(args);
    if (threadIdx.x == kLeader) {
        begin_block(work);
        policy.boundary_ns = ptx::mov_globaltimer_lo();
    }
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
