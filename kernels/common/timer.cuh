// Device time: bounded waits, planted delays, and each block's record with its readings of the SM clock.
#pragma once

#include "abi.cuh"
#include "ptx.cuh"

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

// Begins a block's record; thread 0 only. Returns the block's start.
__device__ __forceinline__ uint64_t begin_block(const WorkArgs& work) {
    const uint32_t column = blockIdx.x + work.first_column;
    const uint64_t start_ns = ptx::mov_globaltimer();
    work.blocks[column].start_ns = start_ns;
    work.blocks[column].sm = ptx::mov_smid();
    if (work.host_started != nullptr && ptx::atom_add_relaxed_gpu(work.arrivals, 1) == 0) {
        ptx::st_release_sys(work.host_started, 1);
    }
    sample_clock(&work.clock[static_cast<uint64_t>(column) * work.clock_capacity]);
    return start_ns;
}

// Reads the clock after every 2^clock_shift tiles, while there is room for one more reading at the end; one thread.
__device__ __forceinline__ void sample_window(const WorkArgs& work, uint32_t tiles) {
    const uint32_t window = tiles >> work.clock_shift;
    if (window << work.clock_shift == tiles && window + 1 < work.clock_capacity) {
        const uint64_t first = static_cast<uint64_t>(blockIdx.x + work.first_column) * work.clock_capacity;
        sample_clock(&work.clock[first + window]);
    }
}

// Ends a block's record once every warp is done; thread 0 only, behind a barrier.
__device__ __forceinline__ void end_block(const WorkArgs& work, uint32_t tiles, uint32_t deadline_hits) {
    const uint32_t column = blockIdx.x + work.first_column;
    const uint32_t windows = min(tiles >> work.clock_shift, work.clock_capacity - 2);
    sample_clock(&work.clock[static_cast<uint64_t>(column) * work.clock_capacity + windows + 1]);
    BlockRecord& record = work.blocks[column];
    record.executed = tiles;
    record.clock_samples = windows + 2;
    record.deadline_hits = deadline_hits;
    record.end_ns = ptx::mov_globaltimer();
    if (work.host_done != nullptr && ptx::atom_add_acq_rel_gpu(work.departures, 1) == gridDim.x - 1) {
        ptx::st_release_sys(work.host_done, 1);
    }
}
