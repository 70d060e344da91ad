// Products of cuDNN's graphs. They call cuDNN through one handle of the dynamic linker per process,
// which Make sets, and so leave no undefined symbol of CUDA or cuDNN.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/caught.h"
#include "base/cudnn_library.h"
#include "base/status.h"
#include "trainer/backend/cuda/cudnn/product_graph.h"
#include "trainer/backend/cuda/cudnn/products.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // set once, by UseInProcess
}

namespace millrace::trainer::cuda {
namespace {

class CudnnProduct : public Product {
 public:
  CudnnProduct(std::shared_ptr<CudnnHandle> handle, std::unique_ptr<ProductGraph> graph)
      : handle_(std::move(handle)), graph_(std::move(graph)) {}

  absl::Status Prepare() {
    MILLRACE_RETURN_IF_ERROR(Try(absl::StatusCode::kInternal,
                                 [&] { return graph_->get_workspace_size(workspace_bytes_); }));
    return Try(absl::StatusCode::kInternal, [&] { return graph_->get_plan_name(name_); });
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(workspace_bytes_); }
  std::string Describe() const override { return name_; }

  absl::Status Run(void* stream, const ProductTensors& tensors, void* workspace) const override {
    if (handle_ == nullptr) return absl::InternalError("there is no device, but its properties");
    std::array<void*, ProductGraph::kAddend + 1> addresses;
    int count = 0;
    for (const ProductGraph::Uid uid : graph_->uids()) addresses[count++] = AddressOf(tensors, uid);
    MILLRACE_RETURN_IF_ERROR(TryCall("cudnnSetStream", [&] {
      return fe::detail::set_stream(handle_->get(), static_cast<cudaStream_t>(stream));
    }));
    return Try(absl::StatusCode::kInternal,
               [&] { return graph_->execute(handle_->get(), addresses.data(), count, workspace); });
  }

 private:
  // The library takes no constant memory, but writes the result alone.
  static void* AddressOf(const ProductTensors& tensors, ProductGraph::Uid uid) {
    switch (uid) {
      case ProductGraph::kX:
        return tensors.x;
      case ProductGraph::kW:
        return tensors.w;
      case ProductGraph::kY:
        return tensors.y;
      case ProductGraph::kBias:
        return const_cast<float*>(tensors.bias);
      case ProductGraph::kAddend:
        return const_cast<void*>(tensors.addend);
    }
    return nullptr;
  }

  const std::shared_ptr<CudnnHandle> handle_;
  const std::unique_ptr<ProductGraph> graph_;
  int64_t workspace_bytes_ = 0;
  std::string name_;
};

// Makes `library` the one that cudnn-frontend calls.
absl::Status UseInProcess(const CudnnLibrary& library) {
  void* used = nullptr;
  std::atomic_ref<void*> handle(fe::cudnn_dlhandle);
  if (handle.compare_exchange_strong(used, library.handle) || used == library.handle) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cuDNN library ", library.file, " (", CudnnVersionText(library.version),
                   ") cannot be used: this process uses another one already"));
}

// 90 of {"deviceVer":900,...}; 0: it is not there.
int SmVersionOf(std::string_view json) {
  constexpr std::string_view kKey = "\"deviceVer\":";
  const size_t begin = json.find(kKey);
  if (begin == std::string_view::npos) return 0;
  json.remove_prefix(begin + kKey.size());
  int version = 0;
  return absl::SimpleAtoi(ToAbsl(json.substr(0, json.find_first_of(",}"))), &version) ? version / 10
                                                                                      : 0;
}

absl::StatusOr<PlanTarget> DescribedDevice(std::string_view json) {
  while (json.ends_with('\n')) json.remove_suffix(1);
  PlanTarget target;
  target.properties = std::make_shared<fe::DeviceProperties>();
  MILLRACE_RETURN_IF_ERROR(Try(absl::StatusCode::kInvalidArgument, [&] {
    return target.properties->deserialize(std::vector<uint8_t>(json.begin(), json.end()));
  }));
  target.json = json;
  target.sm_version = SmVersionOf(json);
  return target;
}

// Empty: the library does not tell.
std::string PropertiesOf(cudnnHandle_t handle) {
  std::vector<uint8_t> json;
  fe::DeviceProperties properties;
  properties.set_handle(handle).set_device_id(-1);
  absl::Status status = Try(absl::StatusCode::kInternal, [&] { return properties.build(); });
  if (status.ok()) {
    status = Try(absl::StatusCode::kInternal, [&] { return properties.serialize(json); });
  }
  return status.ok() ? std::string(json.begin(), json.end()) : std::string();
}

absl::StatusOr<PlanTarget> CurrentDevice(const CudnnLibrary& library) {
  PlanTarget target;
  target.handle = std::make_shared<CudnnHandle>();
  const absl::Status opened = target.handle->Open();
  if (!opened.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cuDNN library ", library.file, " (", CudnnVersionText(library.version),
                     ") cannot be used on the current device: ", opened.message()));
  }
  target.json = PropertiesOf(target.handle->get());
  target.sm_version = SmVersionOf(target.json);
  return target;
}

class Products : public CudnnProducts {
 public:
  Products(CudnnLibrary library, PlanTarget target)
      : library_(std::move(library)), target_(std::move(target)) {}

  absl::StatusOr<PlanChoice> Choose(const ProductSpec& spec) override {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ProductGraph> graph, ListPlans(target_, spec));
    absl::StatusOr<PlanChoice> choice = graph->FirstPlan();
    if (!choice.ok()) return NoPlan(spec, choice.status());
    return choice;
  }

  MadeProduct MakeProduct(const ProductSpec& spec) override { return MakeFor(target_, {spec}); }
  std::vector<MadeProduct> MakeProducts(std::span<const ProductRequest> requests, int threads,
                                        const OnDevice& on_device) override;

  absl::StatusOr<std::vector<std::string>> PlansOf(const ProductSpec& spec, size_t most) override {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ProductGraph> graph, ListPlans(target_, spec));
    absl::StatusOr<std::vector<std::string>> names = graph->FirstPlans(most);
    if (!names.ok()) return NoPlan(spec, names.status());
    return names;
  }

  std::string DeviceProperties() const override { return target_.json; }
  std::string Describe() const override {
    return absl::StrCat("cuDNN ", CudnnVersionText(library_.version));
  }

 private:
  absl::StatusOr<std::unique_ptr<ProductGraph>> ListPlans(const PlanTarget& target,
                                                          const ProductSpec& spec) const {
    MILLRACE_RETURN_IF_ERROR(CheckProductSpec(spec));
    auto graph = std::make_unique<ProductGraph>(spec, target);
    const absl::Status status = graph->ListPlans(target);
    if (!status.ok()) return NoPlan(spec, status);
    return graph;
  }

  MadeProduct MakeFor(const PlanTarget& target, const ProductRequest& request) const {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ProductGraph> graph, ListPlans(target, request.spec));
    const absl::Status built =
        request.plan.empty() ? graph->BuildFirstPlan() : graph->BuildPlan(request.plan);
    if (!built.ok()) return NoPlan(request.spec, built);
    auto product = std::make_unique<CudnnProduct>(target.handle, std::move(graph));
    MILLRACE_RETURN_IF_ERROR(product->Prepare());
    return product;
  }

  absl::Status NoPlan(const ProductSpec& spec, const absl::Status& reason) const {
    return absl::Status(reason.code(),
                        absl::StrCat(Describe(), " has no plan for: ", cuda::Describe(spec), " (",
                                     reason.message(), ")"));
  }

  // A handle is for one thread at a time.
  absl::StatusOr<PlanTarget> AnotherTarget() const {
    return target_.handle == nullptr ? DescribedDevice(target_.json) : CurrentDevice(library_);
  }

  const CudnnLibrary library_;
  const PlanTarget target_;
  std::vector<PlanTarget> others_;  // of other threads
};

// Where there is no further handle or thread, fewer threads do the work.
std::vector<MadeProduct> Products::MakeProducts(std::span<const ProductRequest> requests,
                                                int threads, const OnDevice& on_device) {
  std::vector<MadeProduct> made;
  for (size_t i = 0; i < requests.size(); ++i) made.emplace_back(absl::InternalError("not made"));
  constexpr int kMostThreads = 16;  // a handle takes some of the device's memory
  const size_t num_others =
      std::min<size_t>(std::clamp(threads, 1, kMostThreads), requests.size() + 1) - 1;
  while (others_.size() < num_others) {
    absl::StatusOr<PlanTarget> other = AnotherTarget();
    if (!other.ok()) break;
    others_.push_back(*std::move(other));
  }
  std::atomic<size_t> next = 0;
  const auto work = [&](const PlanTarget& target) {
    for (size_t i = next++; i < requests.size(); i = next++) {
      made[i] = Caught([&] { return MakeFor(target, requests[i]); });
    }
    return absl::OkStatus();
  };
  std::vector<std::jthread> workers;
  Caught([&] {
    for (size_t k = 0; k < std::min(num_others, others_.size()); ++k) {
      workers.emplace_back([&, k] {
        Caught([&] { return on_device([&] { return work(others_[k]); }); }).IgnoreError();
      });
    }
  }).IgnoreError();
  work(target_).IgnoreError();
  workers.clear();  // waits for them
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudnnProducts>> CudnnProducts::Make(const CudnnOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(CudnnLibrary library, LoadCudnn(options.library));
  MILLRACE_RETURN_IF_ERROR(UseInProcess(library));
  MILLRACE_ASSIGN_OR_RETURN(PlanTarget target, options.device_properties.empty()
                                                   ? CurrentDevice(library)
                                                   : DescribedDevice(options.device_properties));
  return std::make_unique<Products>(std::move(library), std::move(target));
}

}  // namespace millrace::trainer::cuda
