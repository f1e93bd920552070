// The persistent loop: blocks pop tiles from one counter until it runs dry.
//
// One barrier a chunk is all there is. The next task is popped during a tile's first chunk and its first chunk is copied
// during the tile's last one, so neither the queue nor the copy is waited for. A policy adds what a kernel does besides.
// The SM issues an instruction in nearly every slot, so what one thread does for its block is spread over the warps: a warp
// with all of it would be late at every barrier, and the other three with it.
#pragma once

#include "block.cuh"
#include "tile.cuh"

// The threads that do a block's errands, each in a warp, and with it a scheduler, of its own.
constexpr uint32_t kLeader = 0;    // Pops and polls, begins and ends the block's record, serves events.
constexpr uint32_t kCounter = 64;  // Counts executions.
constexpr uint32_t kSampler = 96;  // Samples the clock.

// Set in a published task: leave the loop when this tile is done, there is something else to do first. No queue is that
// long, so the comparison that ends the loop on a dry queue ends it here too, and polling costs the other threads nothing.
constexpr uint32_t kInterrupt = 0x80000000u;

// What a block keeps in shared memory.
struct QueueShared {
    Stages stages;
    uint32_t next;  // Written by the leader in a tile's first chunk, read by all in its last: at least one barrier apart.
};

// A policy that does nothing. Others derive from it and hide what they change. `tiles` counts a block's tiles so far.
struct PlainPolicy {
    // Takes the next task, at a tile's start; leader only.
    __device__ __forceinline__ uint32_t pop(const WorkArgs& work, uint32_t) {
        return ptx::atom_add_relaxed_gpu(work.queue, 1);
    }
    // What the block is told of a popped task; leader only.
    __device__ __forceinline__ uint32_t told(uint32_t popped) { return popped; }
    // Leader only, before it multiplies a tile's last chunk.
    __device__ __forceinline__ void before_last_chunk(uint32_t) {}
    // All threads, after a tile's outputs were issued.
    __device__ __forceinline__ void after_tile(uint32_t) {}
    // All threads, out of the loop: whether `task` is an interruption.
    __device__ __forceinline__ bool interrupted(uint32_t) { return false; }
    // All threads, behind a barrier, with no copy in flight; afterwards the stages are free.
    __device__ __forceinline__ void serve_now(const Window&) {}
};

// Works until the queue is empty. Returns the number of tiles this block executed.
template <class Policy>
__device__ __forceinline__ uint32_t drain_queue(const WorkArgs& work, QueueShared& shared, Policy& policy) {
    const Window window(shared.stages);
    const bool leader = threadIdx.x == kLeader;
    if (leader) shared.next = policy.told(policy.pop(work, 0));
    __syncthreads();
    uint32_t task = shared.next;
    uint32_t tiles = 0;
    uint32_t stage = 0;
    for (;;) {
        Source source = source_of(work.a, work.b, work.k_chunks, task);
        if (task < work.tasks) copy_chunk(window, stage, source);
#pragma unroll 1
        while (task < work.tasks) {
            await_copies();
            Accumulator sum;
            sum.clear();
            uint32_t popped = 0;
            if (leader) popped = policy.pop(work, tiles);
            const uint32_t most = work.k_chunks - 1;
#pragma unroll 1
            for (uint32_t left = most; left != 0; --left) {
                source.advance();
                copy_chunk(window, other(stage), source);
                sum.multiply(window, stage);
                stage = other(stage);
                if (left == most && leader) shared.next = policy.told(popped);
                await_copies();
            }
            if (leader) policy.before_last_chunk(tiles);
            const uint32_t next = shared.next;
            source = source_of(work.a, work.b, work.k_chunks, next);
            if (next < work.tasks) copy_chunk(window, other(stage), source);
            sum.multiply(window, stage);
            stage = other(stage);
            sum.store(work.c + static_cast<uint64_t>(task) * kTileFloats);
            if (threadIdx.x == kCounter) ptx::red_add_relaxed_gpu(work.executions + task, 1);
            task = next;
            ++tiles;
            if (threadIdx.x == kSampler) sample_window(work, tiles);
            policy.after_tile(tiles);
        }
        if (!policy.interrupted(task)) return tiles;
        __syncthreads();
        policy.serve_now(window);
        task &= ~kInterrupt;
    }
}

// Adds a block's site counts to the launch's; one thread, once.
__device__ __forceinline__ void count_sites(const WorkArgs& work, uint32_t tiles, uint32_t yields, uint32_t claims) {
    ptx::red_add_relaxed_gpu(&work.sites->copies, static_cast<uint64_t>(tiles + claims) * work.k_chunks);
    if (yields != 0) ptx::red_add_relaxed_gpu(&work.sites->yields, yields);
    if (claims != 0) ptx::red_add_relaxed_gpu(&work.sites->claims, claims);
}
