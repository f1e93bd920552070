// Device time: bounded waits, planted delays, and readings of the SM clock.
#pragma once

#include "ptx.cuh"
#include "record.cuh"

constexpr uint32_t kPauseNs = 32;  // Pause between two looks at a word somebody else writes; one step of a GH100 timer.

// Keeps this thread busy for `ns`. Returns what was really spent, by the same timer.
__device__ __forceinline__ uint32_t spin(uint32_t ns) {
    const uint64_t start = ptx::mov_globaltimer();
    uint64_t spent = 0;
    do {
        spent = ptx::mov_globaltimer() - start;
    } while (spent < ns);
    return static_cast<uint32_t>(spent);
}

// An instant after which nobody waits any longer.
struct Deadline {
    uint64_t start_ns;
    uint64_t length_ns;

    __device__ __forceinline__ bool passed() const { return ptx::mov_globaltimer() - start_ns > length_ns; }
};

// Waits, for one thread of a block, until `ready()` holds. False when the deadline came first.
template <class Ready>
__device__ __forceinline__ bool wait_until(const Deadline& deadline, Ready ready) {
    while (!ready()) {
        if (deadline.passed()) return false;
        ptx::nanosleep(kPauseNs);
    }
    return true;
}

// Reads this SM's clock beside the global timer.
__device__ __forceinline__ void sample_clock(ClockSample* sample) {
    sample->ns = ptx::mov_globaltimer();
    sample->cycles = ptx::mov_clock64();
}

constexpr uint32_t kReadings = 2;  // Of the clock, in a block that reads it at begin and end; `READINGS` in `records.rs`.

// Begins the record of a block; one thread.
__device__ __forceinline__ void block_begins(BlockRecord* blocks, ClockSample* clock) {
    blocks[blockIdx.x].start_ns = ptx::mov_globaltimer();
    blocks[blockIdx.x].sm = ptx::mov_smid();
    sample_clock(&clock[blockIdx.x * kReadings]);
}

// Ends it, with how much work the block did; one thread, once the block's work is done.
__device__ __forceinline__ void block_ends(BlockRecord* blocks, ClockSample* clock, uint32_t executed) {
    sample_clock(&clock[blockIdx.x * kReadings + 1]);
    blocks[blockIdx.x].executed = executed;
    blocks[blockIdx.x].clock_samples = kReadings;
    blocks[blockIdx.x].end_ns = ptx::mov_globaltimer();
}
