// A thread's part in comparing outputs, bit by bit, with their reference.
#pragma once

#include <cstdint>

constexpr uint32_t kUnwritten = 0xFFFFFFFFu;  // What outputs hold before a launch; `harness_core::oracle::UNWRITTEN`.

// Places in `CheckArgs::counts`.
enum CheckCount : uint32_t { kWrongTiles = 0, kUnwrittenTiles = 1, kNotOnce = 2, kErrorBits = 3, kCheckCounts = 4 };

// What one thread found in its elements.
struct OutputCheck {
    bool wrong = false;
    bool unwritten = false;
    float error = 0.0f;

    __device__ __forceinline__ void element(uint32_t got, uint32_t want) {
        unwritten |= got == kUnwritten;
        if (got == want) return;
        wrong = true;
        const float expected = __uint_as_float(want);
        const float difference = fabsf(__uint_as_float(got) - expected) / fmaxf(fabsf(expected), 1.0f);
        error = difference == difference ? fmaxf(error, difference) : __uint_as_float(0x7F800000u);
    }
};
