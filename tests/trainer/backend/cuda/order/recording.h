#ifndef MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_H_
#define MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/trainer/backend/cuda/order/log.h"

namespace millrace::trainer::cuda::order {

// The memory that an item of work uses. Pointers that are null are left out.
struct Use {
  const void* memory = nullptr;
  size_t bytes = 0;
  std::string tensor = "";  // as Range::tensor
};
struct Uses {
  std::vector<Use> reads = {};
  std::vector<Use> writes = {};
};

// Makes the log of one rank. Its memory of the device is addresses that nobody may touch, so that
// it costs nothing. Thread-compatible.
class Recording {
 public:
  // The handle of a stream, where CUDA has a cudaStream_t.
  struct Stream {
    Recording& recording;
    const int number;
  };

  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // The handle lives as long as the recording.
  Stream* MakeStream(std::string name);
  static Stream* ToStream(void* handle) { return static_cast<Stream*>(handle); }
  int MakeEvent() { return num_events_++; }

  // Memory of the device, aligned to 256, of any contents; work behind this on `stream` may use it.
  // No address is given out twice.
  std::byte* Allocate(size_t bytes, std::string_view name, int stream = kHost);
  // `stream`: the one behind whose work it is free; kHost: no work needs it.
  void Free(const void* memory, int stream = kHost);
  // Memory of the host that exists, which copies may use. Other memory of the host is not recorded.
  void AddHostMemory(const void* memory, size_t bytes, std::string_view name);
  void RemoveHostMemory(const void* memory);
  bool IsHostMemory(const void* memory) const { return FindHost(memory) != host_.end(); }
  bool IsDeviceMemory(const void* memory) const {
    return reinterpret_cast<uintptr_t>(memory) >= kFirstAddress &&
           reinterpret_cast<uintptr_t>(memory) < next_address_;
  }

  // Keeps what the host copied to memory of the device, for FindContents: where the work is that a
  // kernel does may be in a table there.
  void KeepContents(const void* memory, const void* from, size_t bytes);
  // Copies `bytes` bytes that were copied to `memory` by one call; false: they were not.
  bool FindContents(const void* memory, size_t bytes, void* to) const;

  void Work(int stream, std::string_view name, const Uses& uses);
  void Record(int event, int stream);
  void Wait(int stream, int event);
  // Work of `second` from now on runs behind the work that `first` was given so far.
  void Order(int first, int second);
  void Forget(const void* memory, size_t bytes);
  void MarkReady(std::string_view gradient, const void* memory, size_t bytes, int stream);

  // From now on work belongs to `operation`, which has declared its uses of the device's memory:
  // items are named by it, their bytes by its tensors. An empty name: to none.
  void Enter(std::string operation, const Uses& declared);
  // Items that used memory which their operation had not declared, in words.
  const std::vector<std::string>& undeclared() const { return undeclared_; }

  // Until EndCapture, work of `stream` is kept and not put into the log.
  void BeginCapture(int stream) { capturing_ = stream; }
  std::vector<Entry> EndCapture();
  bool is_capturing() const { return capturing_ >= 0; }
  void Launch(const std::vector<Entry>& graph);

  const Log& log() const { return log_; }

 private:
  struct HostBlock {
    size_t bytes = 0;
    uint64_t address = 0;  // in the log
  };
  using HostBlocks = std::map<uintptr_t, HostBlock>;

  HostBlocks::const_iterator FindHost(const void* memory) const;
  uint64_t TakeAddresses(size_t bytes);
  uint64_t AddressOf(const void* memory) const;
  bool IsOfHost(const Range& range) const;
  std::vector<Range> RangesOf(const std::vector<Use>& uses) const;
  void Name(std::vector<Range>& ranges, const std::vector<Range>& declared, const char* verb);
  void Push(Entry entry);

  static constexpr uint64_t kFirstAddress = uint64_t{1} << 45;  // where no program has memory

  Log log_;
  std::deque<Stream> streams_;
  int num_events_ = 0;
  uint64_t next_address_ = kFirstAddress;
  int num_memories_ = 0;
  std::map<uint64_t, size_t> allocated_;  // bytes by address, of the device
  HostBlocks host_;
  std::map<uintptr_t, std::vector<std::byte>> contents_;  // by address, of the device
  int capturing_ = -1;                                    // a stream
  std::vector<Entry> captured_;

  std::string operation_;
  std::vector<Range> declared_reads_;  // of all that is declared: what is written may be read
  std::vector<Range> declared_writes_;
  std::vector<std::string> undeclared_;
};

}  // namespace millrace::trainer::cuda::order

#endif  // MILLRACE_TESTS_TRAINER_BACKEND_CUDA_ORDER_RECORDING_H_
