#include "trainer/backend/cuda/copies.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace::trainer::cuda {

void AddConversion(NetworkParts& parts, Draft draft, const Conversion& conversion) {
  const auto make = [&parts, conversion](Access& memory) {
    ConvertArgs args;
    args.from = memory.Read(conversion.from);
    args.from_type = conversion.from.type;
    args.from_channels = conversion.from_channels;
    args.to = memory.Write(conversion.to);
    args.to_type = conversion.to.type;
    args.to_channels = conversion.to_channels;
    args.pixels = conversion.pixels;
    if (conversion.has_factor) args.factor = parts.Factor(memory);
    return args;
  };
  parts.program.AddKernel(std::move(draft), &Kernels::convert, make);
}

void AddCopy(NetworkParts& parts, const Draft& draft, const Tensor& from, const Target& to,
             int64_t count) {
  Tensor term = from;
  if (from.type != to.to.type) {
    if (to.accumulates) {
      const std::string name = absl::StrCat("term of ", parts.buffers.name(to.to));
      term = {parts.buffers.Add(name, to.to.bytes), to.to.type};
    } else {
      term = to.to;
    }
    AddConversion(parts, draft, {.from = from, .to = term, .pixels = count});
    if (!to.accumulates) return;
  }
  const auto make = [term, to, count](Access& memory) {
    BinaryArgs args;
    args.type = term.type;
    args.a = memory.Read(term);
    args.to = to.Open(memory);
    args.count = count;
    args.accumulates = to.accumulates;
    return args;
  };
  parts.program.AddKernel(draft, &Kernels::binary, make);
}

}  // namespace millrace::trainer::cuda
