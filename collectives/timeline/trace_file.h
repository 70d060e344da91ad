#ifndef MILLRACE_COLLECTIVES_TIMELINE_TRACE_FILE_H_
#define MILLRACE_COLLECTIVES_TIMELINE_TRACE_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/atomic_file.h"
#include "collectives/timeline.h"

namespace millrace::collectives {

// A file of the Chrome trace format ("JSON Object Format" of Google's Trace Event Format) that
// appears under its name when it is whole. End returns the first error. Thread-compatible.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) : path_(path) {}

  void Begin();
  void AddRank(int rank, uint64_t num_dropped);
  // `offset` takes the rank's clock to rank 0's.
  void Add(int rank, const Timeline::Entry& entry, int64_t offset);
  // AddRank and all events.
  void Add(int rank, const Timeline& timeline, int64_t offset);
  // All that is between Begin and End in another file of this class.
  //   DATA_LOSS  it is none; nothing was added
  absl::Status AddAllOf(const std::string& path);
  // The first error so far.
  const absl::Status& status() const { return status_; }
  // Ends the file. Returns the first error since Begin.
  absl::Status End();

 private:
  void Write(std::string_view text);
  void Flush();

  const std::string path_;
  std::unique_ptr<AtomicFile> file_;
  std::string unwritten_;
  absl::Status status_;
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_TIMELINE_TRACE_FILE_H_
