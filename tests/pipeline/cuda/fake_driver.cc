// A libcuda without a GPU (fake_driver.h). It is one shared object that uses nothing of Millrace
// but the declarations, so that any program can load it.

#include "tests/pipeline/cuda/fake_driver.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/cuda/types.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace millrace::pipeline::cuda {

struct ContextData {
  int device = 0;
  int64_t retained = 0;
};
struct StreamData {
  ContextHandle context = nullptr;
};
struct EventData {
  ContextHandle context = nullptr;
};

namespace {

constexpr int kMaxDevices = 2;
constexpr unsigned kFirstBus = 0x3a;  // of the PCI address of device 0
constexpr size_t kAlignment = 256;
constexpr size_t kPage = 4096;
constexpr int kDefaultVersion = 12040;
constexpr const char* kKinds[] = {"memory",    "host_memory", "streams", "events",
                                  "context_0", "context_1",   "pushed",  "relaxed"};
// Those that a capture in mode "global" forbids to every thread whose mode is not relaxed.
constexpr const char* kForbiddenInCaptures[] = {"cuMemAlloc",          "cuMemFree",
                                                "cuMemHostAlloc",      "cuMemFreeHost",
                                                "cuStreamSynchronize", "cuEventQuery"};
constexpr char kFresh = '\xA5';  // what new memory holds
constexpr size_t kDeviceBytes = size_t{80} << 30;

struct Block {
  size_t bytes = 0;
  ContextHandle context = nullptr;
};

struct State {
  std::mutex mu;
  bool initialised = false;
  ContextData contexts[kMaxDevices] = {{.device = 0}, {.device = 1}};
  std::map<Address, Block> memory, host_memory;
  std::set<StreamHandle> streams;
  std::set<EventHandle> events;
  int64_t pushed = 0;
  int64_t misuses = 0;
  std::map<std::string, int64_t> calls;
  std::map<std::string, std::map<int64_t, Result>> failures;  // by the number of the call
  Result lost = Result::kSuccess;
  bool captures = false;     // true while a graph is captured
  int64_t relaxed = 0;       // threads whose mode is relaxed
  int64_t recorded_on = -1;  // the stream of the last cuEventRecord
  std::string held;          // the function whose calls wait; empty: none
  // The second's memory is open to the first.
  std::set<std::pair<ContextHandle, ContextHandle>> peers;
  std::condition_variable is_let_go;
};

State& state() {
  static State* const state = new State();  // threads may use it while the process ends
  return *state;
}

thread_local std::vector<ContextHandle> pushed_contexts;
thread_local CaptureMode capture_mode = CaptureMode::kGlobal;

ContextHandle Current() { return pushed_contexts.empty() ? nullptr : pushed_contexts.back(); }

int NumberFrom(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

int NumDevices() {
  return std::clamp(NumberFrom("FAKE_CUDA_DEVICES", kMaxDevices), 0, kMaxDevices);
}

// A call of a function: holds the state, counts, and has the failure that a test asked for.
class Call {
 public:
  explicit Call(const char* function) : lock_(state().mu) {
    const int64_t number = ++state().calls[function];
    state().is_let_go.wait(lock_, [function] { return state().held != function; });
    std::map<int64_t, Result>& failures = state().failures[function];
    const auto failure = failures.find(number);
    failure_ = state().lost;
    if (failure != failures.end()) {
      failure_ = failure->second;
      failures.erase(failure);
    }
    if (IsForbidden(function)) failure_ = Misused(Result::kStreamCaptureUnsupported);
  }

  bool is_forbidden() const { return failure_ == Result::kStreamCaptureUnsupported; }
  bool fails() const { return failure_ != Result::kSuccess; }
  Result failure() const { return failure_; }

  // Counts a misuse, and returns its error.
  Result Misused(Result error) const {
    ++state().misuses;
    return error;
  }

 private:
  static bool IsForbidden(const std::string& function) {
    return state().captures && capture_mode != CaptureMode::kRelaxed &&
           std::ranges::find(kForbiddenInCaptures, function) != std::end(kForbiddenInCaptures);
  }

  std::unique_lock<std::mutex> lock_;
  Result failure_;
};

Address AsAddress(void* memory) { return reinterpret_cast<Address>(memory); }
void* AsPointer(Address memory) { return reinterpret_cast<void*>(memory); }

// REQUIRES: a context is current. Returns 0 if the host has no memory.
Address NewBlock(std::map<Address, Block>& blocks, size_t bytes, size_t alignment) {
  void* const memory =
      std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) return 0;
  std::memset(memory, kFresh, bytes);
  blocks[AsAddress(memory)] = {.bytes = bytes, .context = Current()};
  return AsAddress(memory);
}

bool FreeBlock(std::map<Address, Block>& blocks, Address memory) {
  if (blocks.erase(memory) == 0) return false;
  std::free(AsPointer(memory));
  return true;
}

// True if the bytes lie in one allocation of device memory.
bool IsInside(Address memory, size_t bytes) {
  const auto after = state().memory.upper_bound(memory);
  if (after == state().memory.begin()) return false;
  const auto& [start, block] = *std::prev(after);
  return memory + bytes <= start + block.bytes;
}

// True for the default streams of the current context: 0 and 1, the legacy one, and 2, that of the
// thread.
bool IsDefault(StreamHandle stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }

bool IsStream(StreamHandle stream) {
  return IsDefault(stream) || state().streams.count(stream) != 0;
}

Result Allocate(const char* function, Address* memory, size_t bytes, StreamHandle stream) {
  const Call call(function);
  if (call.fails()) return call.failure();
  if (Current() == nullptr) return call.Misused(Result::kInvalidContext);
  if (!IsStream(stream)) return call.Misused(Result::kInvalidHandle);
  if (bytes == 0) return call.Misused(Result::kInvalidValue);
  *memory = NewBlock(state().memory, bytes, kAlignment);
  return *memory != 0 ? Result::kSuccess : Result::kOutOfMemory;
}

Result Free(const char* function, Address memory, StreamHandle stream) {
  const Call call(function);
  if (call.is_forbidden()) return call.failure();
  if (!IsStream(stream)) return call.Misused(Result::kInvalidHandle);
  if (!FreeBlock(state().memory, memory)) return call.Misused(Result::kInvalidValue);
  return call.failure();
}

Result CopyBack(const char* function, void* to, Address from, size_t bytes, StreamHandle stream) {
  const Call call(function);
  if (call.fails()) return call.failure();
  if (Current() == nullptr) return call.Misused(Result::kInvalidContext);
  if (!IsStream(stream)) return call.Misused(Result::kInvalidHandle);
  if (!IsInside(from, bytes)) return call.Misused(Result::kInvalidValue);
  std::memcpy(to, AsPointer(from), bytes);
  return Result::kSuccess;
}

void EndBlocks(std::map<Address, Block>& blocks, ContextHandle context) {
  std::erase_if(blocks, [context](const auto& entry) {
    if (entry.second.context != context) return false;
    std::free(AsPointer(entry.first));
    return true;
  });
}

template <typename Handle>
void EndHandles(std::set<Handle>& handles, ContextHandle context) {
  std::erase_if(handles, [context](Handle handle) {
    if (handle->context != context) return false;
    delete handle;
    return true;
  });
}

// Ends all that is in `context`; true if there was anything.
bool EndContext(ContextHandle context) {
  State& s = state();
  const auto num_live = [&s] {
    return s.memory.size() + s.host_memory.size() + s.streams.size() + s.events.size();
  };
  const size_t before = num_live();
  EndBlocks(s.memory, context);
  EndBlocks(s.host_memory, context);
  EndHandles(s.streams, context);
  EndHandles(s.events, context);
  std::erase_if(s.peers, [context](const auto& pair) {
    return pair.first == context || pair.second == context;
  });
  return num_live() != before;
}

struct ErrorWords {
  Result error;
  const char* name;
  const char* text;
};

constexpr ErrorWords kErrors[] = {
    {Result::kSuccess, "CUDA_SUCCESS", "no error"},
    {Result::kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {Result::kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {Result::kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {Result::kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {Result::kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {Result::kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {Result::kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {Result::kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {Result::kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {Result::kStreamCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
};

const ErrorWords* WordsOf(Result error) {
  const auto* const found = std::ranges::find(kErrors, error, &ErrorWords::error);
  return found == std::end(kErrors) ? nullptr : found;
}

int64_t LiveOf(const std::string& kind) {
  const State& s = state();
  if (kind == "memory") return static_cast<int64_t>(s.memory.size());
  if (kind == "host_memory") return static_cast<int64_t>(s.host_memory.size());
  if (kind == "streams") return static_cast<int64_t>(s.streams.size());
  if (kind == "events") return static_cast<int64_t>(s.events.size());
  if (kind == "context_0") return s.contexts[0].retained;
  if (kind == "context_1") return s.contexts[1].retained;
  if (kind == "pushed") return s.pushed;
  if (kind == "relaxed") return s.relaxed;
  return -1;
}

}  // namespace

EXPORTED Result cuInit(unsigned int flags) {
  const Call call("cuInit");
  if (call.fails()) return call.failure();
  if (flags != 0) return call.Misused(Result::kInvalidValue);
  if (NumDevices() == 0) return Result::kNoDevice;
  state().initialised = true;
  return Result::kSuccess;
}

EXPORTED Result cuDriverGetVersion(int* version) {
  const Call call("cuDriverGetVersion");
  if (call.fails()) return call.failure();
  *version = NumberFrom("FAKE_CUDA_VERSION", kDefaultVersion);
  return Result::kSuccess;
}

EXPORTED Result cuGetErrorName(Result error, const char** name) {
  const ErrorWords* const words = WordsOf(error);
  *name = words == nullptr ? nullptr : words->name;
  return words == nullptr ? Result::kInvalidValue : Result::kSuccess;
}

EXPORTED Result cuGetErrorString(Result error, const char** text) {
  const ErrorWords* const words = WordsOf(error);
  *text = words == nullptr ? nullptr : words->text;
  return words == nullptr ? Result::kInvalidValue : Result::kSuccess;
}

EXPORTED Result cuDeviceGetCount(int* count) {
  const Call call("cuDeviceGetCount");
  if (call.fails()) return call.failure();
  if (!state().initialised) return call.Misused(Result::kNotInitialized);
  *count = NumDevices();
  return Result::kSuccess;
}

EXPORTED Result cuDeviceGet(DeviceHandle* device, int ordinal) {
  const Call call("cuDeviceGet");
  if (call.fails()) return call.failure();
  if (!state().initialised) return call.Misused(Result::kNotInitialized);
  if (ordinal < 0 || ordinal >= NumDevices()) return Result::kInvalidDevice;
  *device = ordinal;
  return Result::kSuccess;
}

EXPORTED Result cuDeviceGetName(char* name, int size, DeviceHandle device) {
  const Call call("cuDeviceGetName");
  if (call.fails()) return call.failure();
  const std::string text = "Fake GPU " + std::to_string(device);
  const size_t length = std::min(text.size(), static_cast<size_t>(size) - 1);
  std::memcpy(name, text.data(), length);
  name[length] = '\0';
  return Result::kSuccess;
}

EXPORTED Result cuDeviceTotalMem_v2(size_t* bytes, DeviceHandle) {
  const Call call("cuDeviceTotalMem");
  if (call.fails()) return call.failure();
  *bytes = kDeviceBytes;
  return Result::kSuccess;
}

EXPORTED Result cuDeviceGetPCIBusId(char* address, int size, DeviceHandle device) {
  const Call call("cuDeviceGetPCIBusId");
  if (call.fails()) return call.failure();
  const int length = std::snprintf(address, static_cast<size_t>(size), "0000:%02X:00.0",
                                   kFirstBus + static_cast<unsigned>(device));
  return length < size ? Result::kSuccess : call.Misused(Result::kInvalidValue);
}

EXPORTED Result cuDeviceCanAccessPeer(int* can, DeviceHandle device, DeviceHandle peer) {
  const Call call("cuDeviceCanAccessPeer");
  if (call.fails()) return call.failure();
  *can = device != peer ? NumberFrom("FAKE_CUDA_PEERS", 1) : 0;
  return Result::kSuccess;
}

// Device 0 has memory pools, and device 1 has none.
EXPORTED Result cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceHandle device) {
  const Call call("cuDeviceGetAttribute");
  if (call.fails()) return call.failure();
  switch (attribute) {
    case DeviceAttribute::kComputeCapabilityMajor:
      *value = 9;
      return Result::kSuccess;
    case DeviceAttribute::kComputeCapabilityMinor:
      *value = 0;
      return Result::kSuccess;
    case DeviceAttribute::kMemoryPoolsSupported:
      *value = device == 0 ? 1 : 0;
      return Result::kSuccess;
  }
  return call.Misused(Result::kInvalidValue);
}

EXPORTED Result cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceHandle device) {
  const Call call("cuDevicePrimaryCtxRetain");
  if (call.fails()) return call.failure();
  if (device < 0 || device >= NumDevices()) return call.Misused(Result::kInvalidDevice);
  *context = &state().contexts[device];
  ++(*context)->retained;
  return Result::kSuccess;
}

EXPORTED Result cuDevicePrimaryCtxRelease_v2(DeviceHandle device) {
  const Call call("cuDevicePrimaryCtxRelease");
  if (device < 0 || device >= kMaxDevices) return call.Misused(Result::kInvalidDevice);
  ContextData& context = state().contexts[device];
  if (context.retained == 0) return call.Misused(Result::kInvalidContext);
  --context.retained;
  const bool abandons = context.retained == 0 && EndContext(&context);
  if (abandons && state().lost == Result::kSuccess) return call.Misused(Result::kInvalidContext);
  return call.failure();
}

EXPORTED Result cuCtxPushCurrent_v2(ContextHandle context) {
  const Call call("cuCtxPushCurrent");
  if (call.fails()) return call.failure();
  if (context == nullptr || context->retained == 0) return call.Misused(Result::kInvalidContext);
  pushed_contexts.push_back(context);
  ++state().pushed;
  return Result::kSuccess;
}

EXPORTED Result cuCtxPopCurrent_v2(ContextHandle* context) {
  const Call call("cuCtxPopCurrent");
  if (pushed_contexts.empty()) return call.Misused(Result::kInvalidContext);
  *context = pushed_contexts.back();
  pushed_contexts.pop_back();
  --state().pushed;
  return call.failure();
}

EXPORTED Result cuCtxEnablePeerAccess(ContextHandle peer, unsigned int flags) {
  const Call call("cuCtxEnablePeerAccess");
  if (call.fails()) return call.failure();
  const bool may = Current() != nullptr && peer != nullptr && peer->retained > 0 && flags == 0 &&
                   NumberFrom("FAKE_CUDA_PEERS", 1) != 0;
  if (!may || !state().peers.emplace(Current(), peer).second) {
    return call.Misused(Result::kInvalidContext);
  }
  return Result::kSuccess;
}

EXPORTED Result cuCtxGetCurrent(ContextHandle* context) {
  const Call call("cuCtxGetCurrent");
  if (call.fails()) return call.failure();
  *context = Current();
  return Result::kSuccess;
}

// Leaving the relaxed mode is giving it back.
EXPORTED Result cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  const Call call("cuThreadExchangeStreamCaptureMode");
  if (call.fails() && capture_mode != CaptureMode::kRelaxed) return call.failure();
  std::swap(*mode, capture_mode);
  if (*mode == CaptureMode::kRelaxed) --state().relaxed;
  if (capture_mode == CaptureMode::kRelaxed) ++state().relaxed;
  return call.failure();
}

EXPORTED Result cuMemAlloc_v2(Address* memory, size_t bytes) {
  return Allocate("cuMemAlloc", memory, bytes, nullptr);
}
EXPORTED Result cuMemAllocAsync(Address* memory, size_t bytes, StreamHandle stream) {
  return Allocate("cuMemAllocAsync", memory, bytes, stream);
}
EXPORTED Result cuMemFree_v2(Address memory) { return Free("cuMemFree", memory, nullptr); }
EXPORTED Result cuMemFreeAsync(Address memory, StreamHandle stream) {
  return Free("cuMemFreeAsync", memory, stream);
}

EXPORTED Result cuMemHostAlloc(void** memory, size_t bytes, unsigned int flags) {
  const Call call("cuMemHostAlloc");
  if (call.fails()) return call.failure();
  if (Current() == nullptr) return call.Misused(Result::kInvalidContext);
  if (bytes == 0 || flags != kMemHostAllocPortable) return call.Misused(Result::kInvalidValue);
  *memory = AsPointer(NewBlock(state().host_memory, bytes, kPage));
  return *memory != nullptr ? Result::kSuccess : Result::kOutOfMemory;
}

EXPORTED Result cuMemHostGetFlags(unsigned int* flags, void* memory) {
  const Call call("cuMemHostGetFlags");
  if (call.fails()) return call.failure();
  if (state().host_memory.count(AsAddress(memory)) == 0) return Result::kInvalidValue;
  *flags = kMemHostAllocPortable;
  return Result::kSuccess;
}

EXPORTED Result cuMemFreeHost(void* memory) {
  const Call call("cuMemFreeHost");
  if (call.is_forbidden()) return call.failure();
  if (!FreeBlock(state().host_memory, AsAddress(memory))) {
    return call.Misused(Result::kInvalidValue);
  }
  return call.failure();
}

EXPORTED Result cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes,
                                     StreamHandle stream) {
  const Call call("cuMemcpyHtoDAsync");
  if (call.fails()) return call.failure();
  if (Current() == nullptr) return call.Misused(Result::kInvalidContext);
  if (!IsStream(stream)) return call.Misused(Result::kInvalidHandle);
  if (!IsInside(to, bytes)) return call.Misused(Result::kInvalidValue);
  std::memcpy(AsPointer(to), from, bytes);
  return Result::kSuccess;
}

EXPORTED Result cuMemcpyPeerAsync(Address to, ContextHandle to_context, Address from,
                                  ContextHandle from_context, size_t bytes, StreamHandle stream) {
  const Call call("cuMemcpyPeerAsync");
  if (call.fails()) return call.failure();
  if (Current() == nullptr || to_context == nullptr || from_context == nullptr) {
    return call.Misused(Result::kInvalidContext);
  }
  if (!IsStream(stream)) return call.Misused(Result::kInvalidHandle);
  if (!IsInside(to, bytes) || !IsInside(from, bytes)) return call.Misused(Result::kInvalidValue);
  std::memcpy(AsPointer(to), AsPointer(from), bytes);
  if (NumberFrom("FAKE_CUDA_SPOILS_PEERS", 0) != 0) static_cast<char*>(AsPointer(to))[0] ^= 1;
  return Result::kSuccess;
}

EXPORTED Result cuMemcpyDtoH_v2(void* to, Address from, size_t bytes) {
  return CopyBack("cuMemcpyDtoH", to, from, bytes, nullptr);
}
EXPORTED Result cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, StreamHandle stream) {
  return CopyBack("cuMemcpyDtoHAsync", to, from, bytes, stream);
}

EXPORTED Result cuStreamCreate(StreamHandle* stream, unsigned int flags) {
  const Call call("cuStreamCreate");
  if (call.fails()) return call.failure();
  if (Current() == nullptr) return call.Misused(Result::kInvalidContext);
  if (flags != kStreamNonBlocking) return call.Misused(Result::kInvalidValue);
  *stream = new StreamData{.context = Current()};
  state().streams.insert(*stream);
  return Result::kSuccess;
}

EXPORTED Result cuStreamDestroy_v2(StreamHandle stream) {
  const Call call("cuStreamDestroy");
  if (state().streams.erase(stream) == 0) return call.Misused(Result::kInvalidHandle);
  delete stream;
  return call.failure();
}

EXPORTED Result cuStreamSynchronize(StreamHandle stream) {
  const Call call("cuStreamSynchronize");
  if (call.fails()) return call.failure();
  return IsStream(stream) ? Result::kSuccess : call.Misused(Result::kInvalidHandle);
}

EXPORTED Result cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned int flags) {
  const Call call("cuStreamWaitEvent");
  if (call.fails()) return call.failure();
  if (flags != kEventWaitDefault) return call.Misused(Result::kInvalidValue);
  if (IsDefault(stream) && Current() == nullptr) return call.Misused(Result::kInvalidContext);
  const bool live = IsStream(stream) && state().events.count(event) != 0;
  return live ? Result::kSuccess : call.Misused(Result::kInvalidHandle);
}

EXPORTED Result cuEventCreate(EventHandle* event, unsigned int flags) {
  const Call call("cuEventCreate");
  if (call.fails()) return call.failure();
  if (Current() == nullptr) return call.Misused(Result::kInvalidContext);
  if (flags != kEventDisableTiming) return call.Misused(Result::kInvalidValue);
  *event = new EventData{.context = Current()};
  state().events.insert(*event);
  return Result::kSuccess;
}

EXPORTED Result cuEventDestroy_v2(EventHandle event) {
  const Call call("cuEventDestroy");
  if (state().events.erase(event) == 0) return call.Misused(Result::kInvalidHandle);
  delete event;
  return call.failure();
}

// The event and the stream are of one context.
EXPORTED Result cuEventRecord(EventHandle event, StreamHandle stream) {
  const Call call("cuEventRecord");
  if (call.fails()) return call.failure();
  if (IsDefault(stream) && Current() == nullptr) return call.Misused(Result::kInvalidContext);
  if (state().events.count(event) == 0 || !IsStream(stream)) {
    return call.Misused(Result::kInvalidHandle);
  }
  state().recorded_on = static_cast<int64_t>(reinterpret_cast<intptr_t>(stream));
  const ContextHandle of_stream = IsDefault(stream) ? Current() : stream->context;
  return event->context == of_stream ? Result::kSuccess : call.Misused(Result::kInvalidHandle);
}

EXPORTED Result cuEventQuery(EventHandle event) {
  const Call call("cuEventQuery");
  if (call.fails()) return call.failure();
  const bool live = state().events.count(event) != 0;
  return live ? Result::kSuccess : call.Misused(Result::kInvalidHandle);
}

EXPORTED int64_t fake_cuda_live(const char* kind) {
  const std::lock_guard<std::mutex> lock(state().mu);
  if (kind != nullptr) return LiveOf(kind);
  int64_t all = 0;
  for (const char* each : kKinds) all += LiveOf(each);
  return all;
}

EXPORTED int64_t fake_cuda_calls(const char* function) {
  const std::lock_guard<std::mutex> lock(state().mu);
  return state().calls[function];
}

EXPORTED void fake_cuda_fail(const char* function, int nth, int code) {
  const std::lock_guard<std::mutex> lock(state().mu);
  state().failures[function][state().calls[function] + nth] = static_cast<Result>(code);
}

EXPORTED void fake_cuda_lose(int code) {
  const std::lock_guard<std::mutex> lock(state().mu);
  state().lost = static_cast<Result>(code);
}

EXPORTED void fake_cuda_hold(const char* function) {
  const std::lock_guard<std::mutex> lock(state().mu);
  state().held = function == nullptr ? "" : function;
  state().is_let_go.notify_all();
}

EXPORTED void fake_cuda_capture(int captures) {
  const std::lock_guard<std::mutex> lock(state().mu);
  state().captures = captures != 0;
}

EXPORTED int64_t fake_cuda_recorded_on(void) {
  const std::lock_guard<std::mutex> lock(state().mu);
  return state().recorded_on;
}

EXPORTED int64_t fake_cuda_misuses(void) {
  const std::lock_guard<std::mutex> lock(state().mu);
  return state().misuses;
}

EXPORTED void fake_cuda_reset(void) {
  const std::lock_guard<std::mutex> lock(state().mu);
  state().calls.clear();
  state().failures.clear();
  state().misuses = 0;
}

}  // namespace millrace::pipeline::cuda
