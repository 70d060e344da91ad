#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_ISA_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_ISA_H_

#include <dnnl.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::trainer {

// Names of the vector instructions of this processor.
std::vector<std::string_view> ProcessorFlags();

// The name of a set of instructions. One that this oneDNN's header does not know (a later library
// has more, and 999 for all) is told by `flags`, those of the processor.
std::string IsaName(dnnl::cpu_isa isa, std::span<const std::string_view> flags);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_ISA_H_
