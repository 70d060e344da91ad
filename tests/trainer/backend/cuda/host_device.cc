#include "tests/trainer/backend/cuda/host_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::trainer::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kGuardBytes = 256;  // on either side
constexpr std::byte kGuard{0xA5};

bool IsWhole(const std::byte* guard) {
  return std::all_of(guard, guard + kGuardBytes, [](std::byte byte) { return byte == kGuard; });
}

struct HostMark final : Mark {
  size_t position = 0;
};

struct HostGraph final : Graph {
  std::vector<std::function<absl::Status()>> work;
};

// A product whose runs the device may fail.
class WatchedProduct final : public Product {
 public:
  WatchedProduct(std::unique_ptr<Product> product, std::string plan,
                 std::function<absl::Status()> enter)
      : product_(std::move(product)), plan_(std::move(plan)), enter_(std::move(enter)) {}
  size_t workspace_bytes() const override { return product_->workspace_bytes(); }
  absl::Status Run(void* stream, const ProductTensors& tensors, void* workspace) const override {
    MILLRACE_RETURN_IF_ERROR(enter_());
    return product_->Run(stream, tensors, workspace);
  }
  std::string Describe() const override { return plan_; }

 private:
  const std::unique_ptr<Product> product_;
  const std::string plan_;
  const std::function<absl::Status()> enter_;
};

}  // namespace

HostDevice::HostDevice(const Kernels& kernels, bool defers) : kernels_(kernels), defers_(defers) {
  if (defers_) stream_.capturing = &pending_;
}

HostDevice::~HostDevice() { EXPECT_TRUE(allocations_.empty()) << "memory outlives its device"; }

absl::Status HostDevice::Enter(std::string_view call, const void* to, const void* from,
                               size_t bytes) {
  MILLRACE_RETURN_IF_ERROR(failed_);
  return fault ? fault(call, to, from, bytes) : absl::OkStatus();
}

absl::StatusOr<Memory> HostDevice::Allocate(size_t bytes) {
  MILLRACE_RETURN_IF_ERROR(Enter("Allocate", nullptr, nullptr, bytes));
  return Take(bytes, Kind::kDevice);
}

absl::StatusOr<Memory> HostDevice::AllocateHost(size_t bytes) {
  MILLRACE_RETURN_IF_ERROR(Enter("AllocateHost", nullptr, nullptr, bytes));
  return Take(bytes, Kind::kHost);
}

absl::StatusOr<Memory> HostDevice::Take(size_t bytes, Kind kind) {
  const size_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto* const whole =
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, room + 2 * kGuardBytes));
  if (whole == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no ", bytes, " bytes"));
  std::byte* const memory = whole + kGuardBytes;
  std::fill_n(whole, kGuardBytes, kGuard);
  std::memset(memory, 0, bytes);
  std::fill_n(memory + bytes, kGuardBytes, kGuard);
  allocations_[memory] = {bytes, kind};
  (kind == Kind::kDevice ? device_bytes_ : host_bytes_) += bytes;
  return Memory(memory, [this](std::byte* mine) { GiveBack(mine); });
}

// Work that was given may use it.
void HostDevice::GiveBack(std::byte* memory) {
  const absl::Status status = DoUntil(given());
  EXPECT_TRUE(status.ok() || status == failed_) << status;
  const auto found = allocations_.find(memory);
  const Allocation allocation = found->second;
  EXPECT_TRUE(IsWhole(memory - kGuardBytes)) << "a write before an allocation";
  EXPECT_TRUE(IsWhole(memory + allocation.bytes)) << "a write behind an allocation";
  (allocation.kind == Kind::kDevice ? device_bytes_ : host_bytes_) -= allocation.bytes;
  allocations_.erase(found);
  std::free(memory - kGuardBytes);
}

std::vector<std::span<std::byte>> HostDevice::memory() const {
  std::vector<std::span<std::byte>> memory;
  for (const auto& [begin, allocation] : allocations_) {
    if (allocation.kind != Kind::kDevice) continue;
    memory.emplace_back(const_cast<std::byte*>(begin), allocation.bytes);
  }
  return memory;
}

bool HostDevice::IsIn(const void* memory, size_t bytes, Kind kind) const {
  const auto* const begin = static_cast<const std::byte*>(memory);
  auto found = allocations_.upper_bound(begin);
  if (found == allocations_.begin()) return false;
  --found;
  return found->second.kind == kind && begin + bytes <= found->first + found->second.bytes;
}

absl::Status HostDevice::DoUntil(size_t count) {
  while (done_ < count && !pending_.empty() && failed_.ok()) {
    const std::function<absl::Status()> work = std::move(pending_.front());
    pending_.erase(pending_.begin());
    ++done_;
    failed_ = work();
  }
  return failed_;
}

MadeProduct HostDevice::MakeProduct(const ProductSpec& spec) { return MakeByPlan(spec, plans[0]); }

std::vector<MadeProduct> HostDevice::MakeProducts(std::span<const ProductRequest> requests,
                                                  int /*threads*/) {
  std::vector<MadeProduct> products;
  for (const auto& [spec, plan] : requests) {
    products.push_back(MakeByPlan(spec, plan.empty() ? plans[0] : plan));
  }
  return products;
}

MadeProduct HostDevice::MakeByPlan(const ProductSpec& spec, const std::string& plan) {
  MILLRACE_RETURN_IF_ERROR(Enter("MakeProduct"));
  if (lacks && lacks(spec)) return absl::UnimplementedError("no code");
  if (std::ranges::find(plans, plan) == plans.end()) return absl::NotFoundError("no such plan");
  if (build) MILLRACE_RETURN_IF_ERROR(build(plan));
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<Product> product, MakeHostProduct(spec));
  made.push_back(plan);
  return std::make_unique<WatchedProduct>(std::move(product), plan, [this, plan] {
    last_plan_ = plan;
    return Enter("Product");
  });
}

absl::StatusOr<std::vector<std::string>> HostDevice::PlansOf(const ProductSpec& spec) {
  MILLRACE_RETURN_IF_ERROR(Enter("PlansOf"));
  if (lacks && lacks(spec)) return absl::UnimplementedError("no code");
  return plans;
}

absl::StatusOr<double> HostDevice::Time(const std::function<absl::Status()>& work) {
  MILLRACE_RETURN_IF_ERROR(Enter("Time"));
  MILLRACE_RETURN_IF_ERROR(work());
  MILLRACE_RETURN_IF_ERROR(Synchronize());
  return milliseconds ? milliseconds(last_plan_) : 1;
}

// A copy from or to memory of the host that is not page-locked reads it, or writes it, at once.
absl::Status HostDevice::Copy(void* to, const void* from, size_t bytes) {
  MILLRACE_RETURN_IF_ERROR(Enter("Copy", to, from, bytes));
  if (bytes == 0) return absl::OkStatus();
  const bool is_within = IsIn(to, bytes, Kind::kDevice) && IsIn(from, bytes, Kind::kDevice);
  if (is_capturing_ && !is_within) {
    return absl::InternalError("a copy from or to the host cannot be captured");
  }
  const auto copy = [=] {
    std::memmove(to, from, bytes);
    return absl::OkStatus();
  };
  const auto is_kept = [&](const void* memory) {
    return IsIn(memory, bytes, Kind::kDevice) || IsIn(memory, bytes, Kind::kHost);
  };
  if (!is_kept(to)) {
    MILLRACE_RETURN_IF_ERROR(DoUntil(given()));
    return copy();
  }
  if (is_kept(from)) return stream_.Give(copy);
  const auto* const begin = static_cast<const std::byte*>(from);
  return stream_.Give([to, now = std::vector<std::byte>(begin, begin + bytes)] {
    std::memcpy(to, now.data(), now.size());
    return absl::OkStatus();
  });
}

absl::Status HostDevice::Zero(void* memory, size_t bytes) {
  MILLRACE_RETURN_IF_ERROR(Enter("Zero", memory, nullptr, bytes));
  return stream_.Give([=] {
    std::memset(memory, 0, bytes);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::unique_ptr<Mark>> HostDevice::MakeMark() {
  MILLRACE_RETURN_IF_ERROR(Enter("MakeMark"));
  return std::make_unique<HostMark>();
}

absl::Status HostDevice::Record(Mark& mark) {
  MILLRACE_RETURN_IF_ERROR(Enter("Record"));
  if (is_capturing_) return absl::InternalError("a mark cannot be captured");
  static_cast<HostMark&>(mark).position = given();
  return absl::OkStatus();
}

absl::Status HostDevice::Wait(const Mark& mark) {
  MILLRACE_RETURN_IF_ERROR(Enter("Wait"));
  return DoUntil(static_cast<const HostMark&>(mark).position);
}

absl::Status HostDevice::Synchronize() {
  MILLRACE_RETURN_IF_ERROR(Enter("Synchronize"));
  if (is_capturing_) return absl::InternalError("a stream that is captured cannot be waited for");
  return DoUntil(given());
}

absl::Status HostDevice::BeginCapture() {
  MILLRACE_RETURN_IF_ERROR(Enter("BeginCapture"));
  if (is_capturing_) return absl::InternalError("the stream is captured already");
  is_capturing_ = true;
  captured_.clear();
  stream_.capturing = &captured_;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Graph>> HostDevice::EndCapture() {
  is_capturing_ = false;
  stream_.capturing = defers_ ? &pending_ : nullptr;
  MILLRACE_RETURN_IF_ERROR(Enter("EndCapture"));
  auto graph = std::make_unique<HostGraph>();
  graph->work = std::move(captured_);
  return graph;
}

absl::Status HostDevice::Launch(const Graph& graph) {
  MILLRACE_RETURN_IF_ERROR(Enter("Launch"));
  for (const auto& work : static_cast<const HostGraph&>(graph).work) {
    MILLRACE_RETURN_IF_ERROR(stream_.Give(work));
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer::cuda
