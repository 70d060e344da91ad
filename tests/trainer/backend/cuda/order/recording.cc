#include "tests/trainer/backend/cuda/order/recording.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace millrace::trainer::cuda::order {
namespace {

constexpr uint64_t kAlignment = 256;
constexpr uint64_t kGap = 4096;  // between memories, so that one past the end is no memory

}  // namespace

Recording::Stream* Recording::MakeStream(std::string name) {
  log_.streams.push_back(std::move(name));
  return &streams_.emplace_back(*this, static_cast<int>(log_.streams.size()) - 1);
}

uint64_t Recording::TakeAddresses(size_t bytes) {
  const uint64_t address = next_address_;
  next_address_ += (bytes + kAlignment - 1) / kAlignment * kAlignment + kGap;
  return address;
}

std::byte* Recording::Allocate(size_t bytes, std::string_view name, int stream) {
  const uint64_t address = TakeAddresses(bytes);
  allocated_[address] = bytes;
  Push({.kind = Entry::Kind::kAllocate,
        .name = absl::StrCat("memory ", num_memories_++, " ", std::string(name)),
        .stream = stream,
        .writes = {{address, bytes}}});
  return reinterpret_cast<std::byte*>(address);
}

void Recording::Free(const void* memory, int stream) {
  const auto block = allocated_.find(reinterpret_cast<uintptr_t>(memory));
  Push({.kind = Entry::Kind::kFree,
        .name = "free",
        .stream = stream,
        .writes = {{block->first, block->second}}});
  allocated_.erase(block);
}

void Recording::AddHostMemory(const void* memory, size_t bytes, std::string_view name) {
  const uint64_t address = TakeAddresses(bytes);
  host_[reinterpret_cast<uintptr_t>(memory)] = {bytes, address};
  Push({.kind = Entry::Kind::kAllocate,
        .name = absl::StrCat("memory ", num_memories_++, " ", std::string(name)),
        .writes = {{address, bytes}}});
}

void Recording::RemoveHostMemory(const void* memory) {
  const auto block = host_.find(reinterpret_cast<uintptr_t>(memory));
  Push({.kind = Entry::Kind::kFree,
        .name = "free",
        .writes = {{block->second.address, block->second.bytes}}});
  host_.erase(block);
}

Recording::HostBlocks::const_iterator Recording::FindHost(const void* memory) const {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  auto block = host_.upper_bound(address);
  if (block == host_.begin()) return host_.end();
  --block;
  return address < block->first + block->second.bytes ? block : host_.end();
}

void Recording::KeepContents(const void* memory, const void* from, size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(from);
  contents_[reinterpret_cast<uintptr_t>(memory)].assign(begin, begin + bytes);
}

bool Recording::FindContents(const void* memory, size_t bytes, void* to) const {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  auto found = contents_.upper_bound(address);
  if (found == contents_.begin()) return bytes == 0;
  --found;
  const size_t offset = address - found->first;
  if (offset + bytes > found->second.size()) return bytes == 0;
  std::copy_n(found->second.data() + offset, bytes, static_cast<std::byte*>(to));
  return true;
}

uint64_t Recording::AddressOf(const void* memory) const {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const auto block = FindHost(memory);
  return block == host_.end() ? address : block->second.address + (address - block->first);
}

std::vector<Range> Recording::RangesOf(const std::vector<Use>& uses) const {
  std::vector<Range> ranges;
  for (const Use& use : uses) {
    if (use.memory == nullptr || use.bytes == 0) continue;
    ranges.push_back({AddressOf(use.memory), use.bytes, use.tensor});
  }
  return ranges;
}

void Recording::Enter(std::string operation, const Uses& declared) {
  operation_ = std::move(operation);
  declared_writes_ = RangesOf(declared.writes);
  declared_reads_ = RangesOf(declared.reads);
  std::ranges::copy(declared_writes_, std::back_inserter(declared_reads_));
}

bool Recording::IsOfHost(const Range& range) const {
  return std::ranges::any_of(host_, [&](const auto& block) {
    return block.second.address <= range.begin &&
           range.begin < block.second.address + block.second.bytes;
  });
}

// Gives ranges the names of the declared ones that they lie in.
void Recording::Name(std::vector<Range>& ranges, const std::vector<Range>& declared,
                     const char* verb) {
  for (Range& range : ranges) {
    if (IsOfHost(range)) continue;
    const auto whole = std::ranges::find_if(declared, [&](const Range& one) {
      return one.begin <= range.begin && range.end() <= one.end();
    });
    if (whole == declared.end()) {
      undeclared_.push_back(absl::StrCat(operation_, " ", verb, " ", Describe(log_, range)));
    } else if (range.tensor.empty()) {
      range.tensor = whole->tensor;
    }
  }
}

void Recording::Work(int stream, std::string_view name, const Uses& uses) {
  Entry entry = {.kind = Entry::Kind::kWork,
                 .name = std::string(name),
                 .stream = stream,
                 .reads = RangesOf(uses.reads),
                 .writes = RangesOf(uses.writes)};
  if (!operation_.empty()) {
    entry.name = absl::StrCat(operation_, ": ", entry.name);
    Name(entry.reads, declared_reads_, "reads");
    Name(entry.writes, declared_writes_, "writes");
  }
  if (stream == capturing_) {
    captured_.push_back(std::move(entry));
  } else {
    Push(std::move(entry));
  }
}

void Recording::Record(int event, int stream) {
  Push({.kind = Entry::Kind::kRecord, .name = "record", .stream = stream, .event = event});
}

void Recording::Wait(int stream, int event) {
  Push({.kind = Entry::Kind::kWait, .name = "wait", .stream = stream, .event = event});
}

void Recording::Order(int first, int second) {
  const int event = MakeEvent();
  Record(event, first);
  Wait(second, event);
}

void Recording::Forget(const void* memory, size_t bytes) {
  Push({.kind = Entry::Kind::kForget, .name = "forget", .writes = RangesOf({{memory, bytes}})});
}

void Recording::MarkReady(std::string_view gradient, const void* memory, size_t bytes, int stream) {
  Push({.kind = Entry::Kind::kReady,
        .name = absl::StrCat("mark of ", std::string(gradient)),
        .stream = stream,
        .reads = RangesOf({{memory, bytes}})});
}

std::vector<Entry> Recording::EndCapture() {
  capturing_ = -1;
  return std::exchange(captured_, {});
}

void Recording::Launch(const std::vector<Entry>& graph) {
  for (const Entry& entry : graph) Push(entry);
}

void Recording::Push(Entry entry) {
  entry.id = log_.entries.size();
  log_.entries.push_back(std::move(entry));
}

}  // namespace millrace::trainer::cuda::order
