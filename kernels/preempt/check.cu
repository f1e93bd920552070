// Compares every output tile, bit by bit, with the float64 reference, one warp a tile.
#include "check.cuh"
#include "tile.cuh"

namespace {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kCheckThreads = 256;

__device__ __forceinline__ void check(const CheckArgs& args) {
    const uint32_t lane = threadIdx.x % kWarp;
    const uint32_t warps = gridDim.x * (kCheckThreads / kWarp);
    for (uint32_t tile = (blockIdx.x * kCheckThreads + threadIdx.x) / kWarp; tile < args.tiles; tile += warps) {
        uint32_t pair = tile % (kPoolA * kPoolB);
        if (args.urgent_tiles != 0) {
            pair = urgent_pair(args.first_event_id + tile / args.urgent_tiles, tile % args.urgent_tiles);
        }
        const uint4* got = reinterpret_cast<const uint4*>(args.c + static_cast<uint64_t>(tile) * kTileFloats);
        const uint4* want = reinterpret_cast<const uint4*>(args.reference + pair * kTileFloats);
        OutputCheck result;
#pragma unroll 4
        for (uint32_t i = lane; i < kTileFloats / 4; i += kWarp) {
            const uint4 g = got[i];
            const uint4 w = want[i];
            result.element(g.x, w.x);
            result.element(g.y, w.y);
            result.element(g.z, w.z);
            result.element(g.w, w.w);
        }
        if (result.error > 0.0f) ptx::red_max_relaxed_gpu(args.counts + kErrorBits, __float_as_uint(result.error));
        const bool wrong = __any_sync(0xFFFFFFFFu, result.wrong);
        const bool unwritten = __any_sync(0xFFFFFFFFu, result.unwritten);
        if (lane != 0) continue;
        if (wrong) ptx::red_add_relaxed_gpu(args.counts + kWrongTiles, 1u);
        if (unwritten) ptx::red_add_relaxed_gpu(args.counts + kUnwrittenTiles, 1u);
        if (args.executions[tile] != 1) ptx::red_add_relaxed_gpu(args.counts + kNotOnce, 1u);
    }
}

}  // namespace

extern "C" __global__ __launch_bounds__(kCheckThreads) void preempt_check(const __grid_constant__ CheckArgs args) {
    check(args);
}
