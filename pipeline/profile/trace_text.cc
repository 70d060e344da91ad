#include <algorithm>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/profile.h"
#include "pipeline/trace.h"

namespace millrace::pipeline {
namespace {

// The threads of the picture; a training's own have the numbers below.
constexpr int kConsumer = 10;
constexpr int kFirstWorker = 100;
constexpr int kFirstRead = 10'000;

class TraceText {
 public:
  TraceText(const PipelineTrace& trace, int process, int64_t offset_ns, ChromeEvents& events)
      : trace_(trace), process_(process), offset_ns_(offset_ns), events_(events) {}

  void Write() {
    const std::string dropped =
        trace_.dropped == 0 ? "" : absl::StrCat(" (", trace_.dropped, " later events dropped)");
    Name(kConsumer, "consumer" + dropped);
    std::vector<TraceEvent> reads;
    for (const TraceEvent& event : trace_.events) {
      if (event.kind == TraceEvent::Kind::kRead) {
        reads.push_back(event);
      } else {
        Add(event);
      }
    }
    AddReads(reads);
  }

 private:
  void Name(int thread, std::string_view name) {
    if (named_.insert(thread).second) events_.NameThread(process_, thread, name);
  }
  void Add(int thread, std::string_view name, const TraceEvent& event, std::string_view args = {}) {
    events_.Add(process_, thread, name, event.begin_ns + offset_ns_, event.end_ns + offset_ns_,
                args);
  }
  void Add(const TraceEvent& event);
  void AddReads(std::vector<TraceEvent>& reads);
  std::string FileOf(const TraceEvent& read) const {
    const auto file = static_cast<size_t>(read.of);
    return file < trace_.files.size() ? trace_.files[file] : "";
  }

  const PipelineTrace& trace_;
  const int process_;
  const int64_t offset_ns_;
  ChromeEvents& events_;
  std::set<int> named_;  // threads
};

void TraceText::Add(const TraceEvent& event) {
  switch (event.kind) {
    case TraceEvent::Kind::kItem:
      Name(kFirstWorker + event.of, absl::StrCat("worker ", event.of));
      return Add(kFirstWorker + event.of, ItemKindName(static_cast<ItemKind>(event.what)), event);
    case TraceEvent::Kind::kWait: {
      const std::string_view cause = WaitCauseName(static_cast<WaitCause>(event.what));
      return Add(kConsumer, absl::StrCat("wait: ", ToAbsl(cause)), event);
    }
    case TraceEvent::Kind::kBatch:
      return Add(kConsumer, "batch", event, absl::StrCat("\"number\": ", event.number));
    case TraceEvent::Kind::kReady:
      return events_.Count(process_, "ready batches", event.begin_ns + offset_ns_, event.number);
    case TraceEvent::Kind::kRead:
      return;
  }
}

// Events of one line must not overlap, so a read is drawn in the first line that is free.
void TraceText::AddReads(std::vector<TraceEvent>& reads) {
  std::ranges::sort(reads, {}, &TraceEvent::begin_ns);
  std::vector<int64_t> ends;  // of each line's last read
  for (const TraceEvent& read : reads) {
    const auto free = std::ranges::find_if(ends, [&](int64_t end) { return end <= read.begin_ns; });
    const auto line = static_cast<int>(free - ends.begin());
    if (free == ends.end()) ends.push_back(0);
    ends[static_cast<size_t>(line)] = read.end_ns;
    Name(kFirstRead + line, absl::StrCat("reads ", line));
    Add(kFirstRead + line, "read", read,
        absl::StrCat("\"bytes\": ", read.number, ", \"file\": ", JsonString(FileOf(read))));
  }
}

}  // namespace

void AddTrace(const PipelineTrace& trace, int process, int64_t offset_ns, ChromeEvents& events) {
  TraceText(trace, process, offset_ns, events).Write();
}

}  // namespace millrace::pipeline
