// Products of cuDNN's graphs. They call cuDNN through one handle of the dynamic linker per process,
// which Make sets, and so leave no undefined symbol of CUDA or cuDNN.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
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
  CudnnProduct(std::shared_ptr<CudnnHandle> handle, std::shared_ptr<ProductGraph> graph,
               int64_t plan)
      : handle_(std::move(handle)), graph_(std::move(graph)), plan_(plan) {}
  ~CudnnProduct() override { graph_->DropPlan(plan_); }

  absl::Status Prepare() {
    MILLRACE_RETURN_IF_ERROR(Try(absl::StatusCode::kInternal, [&] {
      return graph_->get_workspace_size_plan_at_index(plan_, workspace_bytes_);
    }));
    return Try(absl::StatusCode::kInternal,
               [&] { return graph_->get_plan_name_at_index(plan_, name_); });
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
    return Try(absl::StatusCode::kInternal, [&] {
      return graph_->execute_plan_at_index(handle_->get(), addresses.data(), count, workspace,
                                           plan_);
    });
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
  const std::shared_ptr<ProductGraph> graph_;
  const int64_t plan_;  // its number in the graph
  int64_t workspace_bytes_ = 0;
  std::string name_;
};

// `plan` is built.
absl::StatusOr<std::unique_ptr<Product>> ProductOf(const PlanTarget& target,
                                                   std::shared_ptr<ProductGraph> graph,
                                                   int64_t plan) {
  auto product = std::make_unique<CudnnProduct>(target.handle, std::move(graph), plan);
  MILLRACE_RETURN_IF_ERROR(product->Prepare());
  return product;
}

class CudnnPlans : public ProductPlans {
 public:
  CudnnPlans(const PlanTarget& target, std::shared_ptr<ProductGraph> graph,
             const std::vector<ProductGraph::NumberedPlan>& plans)
      : target_(target), graph_(std::move(graph)) {
    for (const ProductGraph::NumberedPlan& plan : plans) {
      numbers_.push_back(plan.number);
      names_.push_back(plan.name);
    }
  }

  const std::vector<std::string>& names() const override { return names_; }
  absl::StatusOr<std::unique_ptr<Product>> Make(size_t i) override {
    MILLRACE_RETURN_IF_ERROR(graph_->BuildPlan(numbers_[i]));
    return ProductOf(target_, graph_, numbers_[i]);
  }

 private:
  const PlanTarget target_;
  const std::shared_ptr<ProductGraph> graph_;
  std::vector<int64_t> numbers_;
  std::vector<std::string> names_;
};

class Products : public CudnnProducts {
 public:
  Products(CudnnLibrary library, PlanTarget target)
      : library_(std::move(library)), target_(std::move(target)) {}

  absl::StatusOr<PlanChoice> Choose(const ProductSpec& spec) override {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ProductGraph> graph, ListPlans(spec));
    absl::StatusOr<PlanChoice> choice = graph->FirstPlan();
    if (!choice.ok()) return NoPlan(spec, choice.status());
    return choice;
  }

  absl::StatusOr<std::unique_ptr<Product>> MakeProduct(const ProductSpec& spec) override {
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<ProductGraph> graph, ListPlans(spec));
    const absl::StatusOr<int64_t> plan = graph->BuildFirstPlan();
    if (!plan.ok()) return NoPlan(spec, plan.status());
    return ProductOf(target_, std::move(graph), *plan);
  }

  absl::StatusOr<std::unique_ptr<ProductPlans>> PlansOf(const ProductSpec& spec,
                                                        size_t most) override {
    MILLRACE_ASSIGN_OR_RETURN(std::shared_ptr<ProductGraph> graph, ListPlans(spec));
    const auto first = graph->FirstPlans(most);
    if (!first.ok()) return NoPlan(spec, first.status());
    return std::make_unique<CudnnPlans>(target_, std::move(graph), *first);
  }

  std::string DeviceProperties() const override { return target_.json; }
  std::string Describe() const override {
    return absl::StrCat("cuDNN ", CudnnVersionText(library_.version));
  }

 private:
  absl::StatusOr<std::unique_ptr<ProductGraph>> ListPlans(const ProductSpec& spec) const {
    MILLRACE_RETURN_IF_ERROR(CheckProductSpec(spec));
    auto graph = std::make_unique<ProductGraph>(spec, target_);
    const absl::Status status = graph->ListPlans(target_);
    if (!status.ok()) return NoPlan(spec, status);
    return graph;
  }

  absl::Status NoPlan(const ProductSpec& spec, const absl::Status& reason) const {
    return absl::Status(reason.code(),
                        absl::StrCat(Describe(), " has no plan for: ", cuda::Describe(spec), " (",
                                     reason.message(), ")"));
  }

  const CudnnLibrary library_;
  const PlanTarget target_;
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
