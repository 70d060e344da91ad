// bench_make_tensors FILE RECORDS FIELD EXTENT...: a TFRecord file of Examples with the float field
// FIELD of these extents, drawn from -1 to 1, and the int64 field `label`, 0 and 1 by turns. The
// same arguments give the same file.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/philox.h"
#include "base/status.h"
#include "readers/example_builder.h"
#include "readers/record_writer.h"

namespace millrace::bench {
namespace {

absl::Status Write(const std::string& path, int records, const std::string& field, size_t count) {
  MILLRACE_ASSIGN_OR_RETURN(const auto writer, readers::TfRecordWriter::Open(path));
  RandomStream random(RandomKey{});
  std::vector<float> values(count);
  readers::ExampleBuilder builder;
  for (int i = 0; i < records; ++i) {
    for (float& value : values) value = 2 * random.NextFloat() - 1;
    builder.AddFloats(field, values);
    builder.AddInt("label", i % 2);
    MILLRACE_RETURN_IF_ERROR(writer->Write(builder.Serialize()));
  }
  return writer->Close();
}

int Main(int argc, char** argv) {
  int records = 0;
  bool is_good = argc >= 5 && absl::SimpleAtoi(argv[2], &records) && records >= 1;
  size_t count = 1;
  for (int i = 4; i < argc; ++i) {
    uint32_t extent = 0;
    is_good = is_good && absl::SimpleAtoi(argv[i], &extent);
    count *= extent;
  }
  if (!is_good || count == 0) {
    std::fprintf(stderr,
                 "usage: bench_make_tensors FILE RECORDS FIELD EXTENT..., all at least 1\n");
    return 2;
  }
  const absl::Status status = Write(argv[1], records, argv[3], count);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) { return millrace::bench::Main(argc, argv); }
