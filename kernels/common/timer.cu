// The global timer itself: its step, and how far each SM's reading is from that of block 0's SM.
#include "timer.cuh"

namespace {

// One thread reads the timer again and again and keeps the smallest step that is not zero.
__device__ __forceinline__ void quantum(const QuantumArgs& args) {
    if (threadIdx.x != 0) return;
    const uint64_t start_ns = ptx::mov_globaltimer();
    uint64_t last_ns = start_ns;
    uint64_t least_ns = UINT32_MAX;
    for (uint32_t read = 0; read < args.reads; ++read) {
        const uint64_t now_ns = ptx::mov_globaltimer();
        if (now_ns != last_ns) least_ns = min(least_ns, now_ns - last_ns);
        last_ns = now_ns;
    }
    *args.quantum_ns = static_cast<uint32_t>(least_ns);
    args.blocks[0] = BlockRecord{start_ns, last_ns, ptx::mov_smid(), 0, 0, 0};
}

// Block 0 calls a peer: it reads its timer, calls, and reads it again when the reply is there. The peer read its own timer
// in between; the exchange with the shortest round trip says how far the two are apart.
__device__ __forceinline__ bool call_peer(const OffsetArgs& args, const Deadline& deadline, uint32_t peer) {
    uint64_t best_rtt_ns = UINT32_MAX;
    int64_t best_offset_ns = 0;
    for (uint32_t round = 1; round <= args.rounds; ++round) {
        const uint64_t call_ns = ptx::mov_globaltimer();
        ptx::st_release_gpu(args.calls + peer * args.stride, round);
        if (!wait_until(deadline, [&] { return ptx::ld_acquire_gpu(args.replies + peer * args.stride) == round; })) {
            return false;
        }
        const uint64_t back_ns = ptx::mov_globaltimer();
        if (back_ns - call_ns >= best_rtt_ns) continue;
        best_rtt_ns = back_ns - call_ns;
        best_offset_ns = static_cast<int64_t>(args.reply_ns[peer] - call_ns) - static_cast<int64_t>(best_rtt_ns / 2);
    }
    args.offset_ns[peer] = best_offset_ns;
    args.rtt_ns[peer] = static_cast<uint32_t>(best_rtt_ns);
    return true;
}

__device__ __forceinline__ bool answer_calls(const OffsetArgs& args, const Deadline& deadline) {
    const uint32_t me = blockIdx.x;
    for (uint32_t round = 1; round <= args.rounds; ++round) {
        if (!wait_until(deadline, [&] { return ptx::ld_acquire_gpu(args.calls + me * args.stride) == round; })) return false;
        args.reply_ns[me] = ptx::mov_globaltimer();
        ptx::st_release_gpu(args.replies + me * args.stride, round);
    }
    return true;
}

__device__ __forceinline__ bool call_peers(const OffsetArgs& args, const Deadline& deadline) {
    if (!wait_until(deadline, [&] { return ptx::ld_acquire_gpu(args.checked_in) == gridDim.x - 1; })) return false;
    for (uint32_t peer = 1; peer < gridDim.x; ++peer) {
        if (!call_peer(args, deadline, peer)) return false;
    }
    return true;
}

__device__ __forceinline__ void offset(const OffsetArgs& args) {
    if (threadIdx.x != 0) return;
    const Deadline deadline{ptx::mov_globaltimer(), args.deadline_ns};
    bool in_time = true;
    if (blockIdx.x == 0) {
        in_time = call_peers(args, deadline);
    } else {
        ptx::red_add_release_gpu(args.checked_in, 1);
        in_time = answer_calls(args, deadline);
    }
    args.blocks[blockIdx.x] = BlockRecord{deadline.start_ns, ptx::mov_globaltimer(), ptx::mov_smid(), 0, 0, in_time ? 0u : 1u};
}

}  // namespace

extern "C" __global__ __launch_bounds__(32) void preempt_timer_quantum(const __grid_constant__ QuantumArgs args) {
    quantum(args);
}

extern "C" __global__ __launch_bounds__(32) void preempt_timer_offset(const __grid_constant__ OffsetArgs args) {
    offset(args);
}
