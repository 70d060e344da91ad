#ifndef MILLRACE_BASE_BYTES_TEXT_H_
#define MILLRACE_BASE_BYTES_TEXT_H_

#include <string>

namespace millrace {

// Returns a number of bytes for people to read, in binary (IEC) units: "12 B", "3.0 MiB".
std::string BytesText(double bytes);

}  // namespace millrace

#endif  // MILLRACE_BASE_BYTES_TEXT_H_
