// The persistent loop: blocks pop tiles from one counter until it runs dry.
//
// One barrier a chunk is all there is. The next task is popped during a tile's first chunk and its first chunk is copied
// during the tile's last one, so neither the queue nor the copy is waited for. A policy adds what a kernel does besides.
// The SM issues an instruction in nearly every slot, so what one thread does for its block is spread over the warps: a warp
// with all of it would be late at every barrier, and the other three with it.
#pragma once

#include "tile.cuh"
#include "timer.cuh"

// The threads that do a block's errands, each in a warp, and with it a scheduler, of its own.
constexpr uint32_t kLeader = 0;    // Pops, begins and ends the block's record, serves events.
constexpr uint32_t kPoller = 32;   // Polls the flag.
constexpr uint32_t kCounter = 64;  // Counts executions.
constexpr uint32_t kSampler = 96;  // Samples the clock.

// What a block keeps in shared memory.
struct QueueShared {
    Stages stages;
    uint32_t next;  // Written by the leader in a tile's first chunk, read by all in its last: at least one barrier apart.
};

// A thread's addresses in shared memory, each kept in a register.
struct QueueWindow : Window {
    uint32_t next;

    __device__ __forceinline__ explicit QueueWindow(const QueueShared& shared) : Window(shared.stages) {
        next = ptx::mov_b32(static_cast<uint32_t>(__cvta_generic_to_shared(&shared.next)));
    }
};

// A policy that does nothing. Others derive from it and hide what they change.
struct PlainPolicy {
    // Takes the next task; leader only.
    __device__ __forceinline__ uint32_t pop(const WorkArgs& work) { return ptx::atom_add_relaxed_gpu(work.queue, 1); }
    // All threads, before they multiply a tile's last chunk.
    __device__ __forceinline__ void before_last_chunk(uint32_t) {}
    // All threads, after a tile's outputs were issued.
    __device__ __forceinline__ void after_tile(uint32_t, const QueueWindow&) {}
    // All threads, at a tile's start: every warp is there and no copy is in flight. True when it used the stages.
    __device__ __forceinline__ bool interrupted(uint32_t, const QueueWindow&) { return false; }
};

// Works until the queue is empty. Returns the number of tiles this block executed.
template <class Policy>
__device__ __forceinline__ uint32_t drain_queue(const WorkArgs& work, QueueShared& shared, Policy& policy) {
    const QueueWindow window(shared);
    if (threadIdx.x == kLeader) shared.next = policy.pop(work);
    __syncthreads();
    uint32_t task = shared.next;
    uint32_t tiles = 0;
    uint32_t stage = 0;
    Source source = source_of(work.a, work.b, work.k_chunks, task);
    if (task < work.tasks) copy_chunk(window, stage, source);
#pragma unroll 1
    while (task < work.tasks) {
        await_copies();
        if (policy.interrupted(tiles, window)) {
            copy_chunk(window, stage, source);
            await_copies();
        }
        Accumulator sum;
        sum.clear();
        uint32_t next = 0;
        uint32_t popped = 0;
        if (threadIdx.x == kLeader) popped = policy.pop(work);
        uint32_t left = work.k_chunks;
#pragma unroll 1
        for (;;) {
            const bool first = left == work.k_chunks;
            --left;
            if (left == 0) {
                policy.before_last_chunk(tiles);
                next = ptx::ld_shared<0>(window.next);
                source = source_of(work.a, work.b, work.k_chunks, next);
                if (next < work.tasks) copy_chunk(window, other(stage), source);
            } else {
                source.advance();
                copy_chunk(window, other(stage), source);
            }
            sum.multiply(window, stage);
            stage = other(stage);
            if (first && threadIdx.x == kLeader) ptx::st_shared<0>(window.next, popped);
            if (left == 0) break;
            await_copies();
        }
        sum.store(work.c + static_cast<uint64_t>(task) * kTileFloats);
        if (threadIdx.x == kCounter) ptx::red_add_relaxed_gpu(work.executions + task, 1);
        task = next;
        ++tiles;
        if (threadIdx.x == kSampler) sample_window(work, tiles);
        policy.after_tile(tiles, window);
    }
    return tiles;
}

// Adds a block's site counts to the launch's; one thread, once.
__device__ __forceinline__ void count_sites(const WorkArgs& work, uint32_t tiles, uint32_t yields, uint32_t claims) {
    ptx::red_add_relaxed_gpu(&work.sites->copies, static_cast<uint64_t>(tiles + claims) * work.k_chunks);
    if (yields != 0) ptx::red_add_relaxed_gpu(&work.sites->yields, yields);
    if (claims != 0) ptx::red_add_relaxed_gpu(&work.sites->claims, claims);
}
