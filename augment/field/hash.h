#ifndef MILLRACE_AUGMENT_FIELD_HASH_H_
#define MILLRACE_AUGMENT_FIELD_HASH_H_

#include <cstdint>
#include <string_view>

namespace millrace::augment {

// floor(h * num_bins / 2^64) of h = XXH3, 64 bits, seed `salt`: no division, and every bin is as
// likely but for num_bins / 2^64.
uint64_t BinOf(std::string_view bytes, uint64_t salt, uint64_t num_bins);

}  // namespace millrace::augment

#endif  // MILLRACE_AUGMENT_FIELD_HASH_H_
