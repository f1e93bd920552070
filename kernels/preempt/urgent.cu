// The urgent task of the baseline: one block, one tile, launched beside a drain that does not yield.
#include "tile.cuh"
#include "timer.cuh"

namespace {

__device__ __forceinline__ void urgent(const UrgentArgs& args) {
    __shared__ Stages stages;
    const bool leader = threadIdx.x == 0;
    if (leader) {
        args.times_ns[0] = ptx::mov_globaltimer();
        ptx::st_release_sys(args.host_started, 1);
        ptx::red_add_relaxed_gpu(args.executions, 1);
        ptx::red_add_relaxed_gpu(&args.sites->claims, 1);
        ptx::red_add_relaxed_gpu(&args.sites->copies, static_cast<uint64_t>(args.k_chunks));
    }
    const Source source = source_of(args.a, args.b, args.k_chunks, urgent_pair(args.event_id, 0));
    compute_tile(Window(stages), source, args.k_chunks, args.c);
    __syncthreads();
    if (leader) {
        args.times_ns[1] = ptx::mov_globaltimer();
        ptx::st_release_sys(args.host_done, 1);
    }
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads, 5) void preempt_urgent(const __grid_constant__ UrgentArgs args) {
    urgent(args);
}
