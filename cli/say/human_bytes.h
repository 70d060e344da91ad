#ifndef MILLRACE_CLI_SAY_HUMAN_BYTES_H_
#define MILLRACE_CLI_SAY_HUMAN_BYTES_H_

#include <string>

namespace millrace::cli {

// "1.5 GB", "110.2 KB": decimal units.
std::string HumanBytes(double bytes);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_SAY_HUMAN_BYTES_H_
