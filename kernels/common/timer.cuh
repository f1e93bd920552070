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
