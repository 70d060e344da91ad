#ifndef MILLRACE_READERS_CONTAINER_H_
#define MILLRACE_READERS_CONTAINER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::readers {

// How records lie in a shard (readers/FORMAT.md). Index files hold the numbers.
enum class ContainerKind {
  kTfRecord = 0,
  kFixedLength = 1,  // records of record_bytes each, between a header and a footer
  kText = 2,         // lines
  kCsv = 3,          // rows (RFC 4180)
  kTar = 4,          // samples of WebDataset
  kIdx = 5,          // the elements of the first dimension (the MNIST format)
};

struct ContainerOptions {
  ContainerKind kind = ContainerKind::kTfRecord;
  // kFixedLength
  uint64_t header_bytes = 0;
  uint64_t record_bytes = 0;  // at least 1
  uint64_t footer_bytes = 0;
  // kText
  bool skips_blank = false;  // true if lines of blanks alone are no records, as in JSON lines
  // kCsv
  bool has_header = false;  // true if the first row names the columns and is no record
  char delimiter = ',';     // between fields; a quote is one only at the front of a field

  friend bool operator==(const ContainerOptions&, const ContainerOptions&) = default;
};

// The word for a container in commands ("csv") and the endings of its files' names.
struct ContainerName {
  ContainerKind kind;
  std::string_view word;
  std::vector<std::string_view> endings;
};
std::span<const ContainerName> ContainerNames();
// Returns the container that the end of a file's name tells, after the ending of a compression is
// taken off: "a.tsv.gz" has rows with tabs between their cells. TFRecord if the name tells nothing.
ContainerOptions ContainerOfName(std::string_view path);

// Text for people, such as "rows of CSV, the first one names columns"; different options give
// different texts.
std::string ToString(const ContainerOptions& options);

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_CONTAINER_H_
