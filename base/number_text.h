#ifndef MILLRACE_BASE_NUMBER_TEXT_H_
#define MILLRACE_BASE_NUMBER_TEXT_H_

#include <cstdint>
#include <string>

namespace millrace {

// A number with a comma before each three digits: "25,557,032".
std::string Grouped(int64_t number);
std::string Grouped(uint64_t number);

}  // namespace millrace

#endif  // MILLRACE_BASE_NUMBER_TEXT_H_
