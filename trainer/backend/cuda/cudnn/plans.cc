// Products as graphs of cuDNN, by the headers of cudnn-frontend, which take half a minute to
// compile: nothing else includes them. They call cuDNN through one handle of the dynamic linker per
// process, which Make sets, and so leave no undefined symbol of CUDA or cuDNN.
//
// A graph is a convolution or a gradient of one, then its epilogue as pointwise operations, whose
// values between are float32 and virtual: in no memory. cuDNN's heuristics list plans for it, the
// quickest first by their estimate.

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/cudnn_library.h"
#include "base/status.h"
#include "trainer/backend/cuda/cudnn/products.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // set once, by UseInProcess
}

namespace millrace::trainer::cuda {
namespace {

namespace fe = cudnn_frontend;
using Attributes = fe::graph::Tensor_attributes;
using Tensor = std::shared_ptr<Attributes>;

// The names of tensors in a graph. Their order is that of the addresses in Run.
enum Uid : int64_t { kX = 1, kW, kY, kBias, kAddend };

// Plans that need more scratch memory are not taken.
constexpr int64_t kMaxWorkspace = int64_t{2} << 30;

// The library's words as one line, and not all of them: it gives a reason for each plan.
std::string OneLine(std::string_view words) {
  constexpr size_t kMost = 300;
  const std::string line = absl::StrReplaceAll(ToAbsl(words), {{"\n", " "}});
  return line.size() <= kMost ? line : absl::StrCat(line.substr(0, kMost), " ...");
}

// Calls the library, whose headers also throw.
template <typename Call>
absl::Status Try(absl::StatusCode code, Call call) {
  try {
    fe::error_t error = call();
    if (error.is_good()) return absl::OkStatus();
    return absl::Status(code, OneLine(error.get_message()));
  } catch (const std::exception& error) {
    return absl::Status(code, OneLine(error.what()));
  }
}

template <typename Call>
absl::Status TryPlan(Call call) {
  return Try(absl::StatusCode::kUnimplemented, call);
}

template <typename Call>
absl::Status TryCall(std::string_view name, Call call) {
  return Try(absl::StatusCode::kInternal, [&]() -> fe::error_t {
    const cudnnStatus_t status = call();
    if (status == CUDNN_STATUS_SUCCESS) return {};
    return {fe::error_code_t::CUDNN_BACKEND_API_FAILED,
            std::string(name) + ": " + fe::to_string(status)};
  });
}

fe::DataType_t TypeOf(DType type) {
  if (type == DType::kBF16) return fe::DataType_t::BFLOAT16;
  if (type == DType::kF16) return fe::DataType_t::HALF;
  return fe::DataType_t::FLOAT;
}

// A context of the library on the device that is current.
class Handle {
 public:
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (handle_ != nullptr) fe::detail::destroy_handle(handle_);
  }
  absl::Status Open() {
    return TryCall("cudnnCreate", [&] { return fe::detail::create_handle(&handle_); });
  }
  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

// The device that plans are chosen for.
struct Target {
  std::shared_ptr<Handle> handle;  // null: it is not here
  std::shared_ptr<fe::DeviceProperties> properties;
  std::string json;
  int sm_version = 0;  // 90 for an H100; 0: unknown
};

class ProductGraph : public fe::graph::Graph {
 public:
  ProductGraph(const ProductSpec& spec, const Target& target) : spec_(spec) {
    set_io_data_type(TypeOf(spec.type));
    set_intermediate_data_type(fe::DataType_t::FLOAT);
    set_compute_data_type(fe::DataType_t::FLOAT);
    set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);
    if (target.sm_version > 0) set_sm_version(target.sm_version);
    if (target.handle == nullptr) set_device_properties(target.properties);
    AddProduct();
  }

  // Makes the list of plans.
  absl::Status ListPlans(const Target& target) {
    MILLRACE_RETURN_IF_ERROR(TryPlan([&] { return validate(); }));
    MILLRACE_RETURN_IF_ERROR(TryPlan([&] {
      return build_operation_graph(target.handle == nullptr ? nullptr : target.handle->get());
    }));
    MILLRACE_RETURN_IF_ERROR(TryPlan([&] {
      return create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
    }));
    deselect_numeric_notes(Refused());
    deselect_workspace_greater_than(kMaxWorkspace);
    return TryPlan([&] { return check_support(); });
  }

  // REQUIRES: ListPlans was OK.
  absl::StatusOr<PlanChoice> FirstPlan() {
    PlanChoice choice;
    int64_t first = -1;
    for (int64_t i = 0; i < get_execution_plan_count(); ++i) {
      if (plans.check_support_at_index(i).is_bad()) continue;
      if (choice.num_plans++ == 0) first = i;
    }
    MILLRACE_RETURN_IF_ERROR(TryPlan([&] { return get_plan_name_at_index(first, choice.name); }));
    MILLRACE_RETURN_IF_ERROR(TryPlan([&] { return FindWorkspace(choice); }));
    return choice;
  }

  // Makes the first plan that can be made ready to run. REQUIRES: ListPlans was OK.
  absl::Status BuildFirstPlan() {
    return TryPlan([&] { return build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE, false); });
  }

  const std::vector<Uid>& uids() const { return uids_; }

 private:
  fe::error_t FindWorkspace(PlanChoice& choice) {
    for (fe::ManagedOpaqueDescriptor& config : plans.get_barred_engine_configs()) {
      if (fe::detail::get_engine_tag(config) != choice.name) continue;
      return fe::detail::get_workspace_size(config, choice.workspace_bytes);
    }
    return {};
  }

  std::vector<fe::NumericalNote_t> Refused() const {
    std::vector<fe::NumericalNote_t> notes = {
        fe::NumericalNote_t::NONDETERMINISTIC, fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION,
        // The transforms of these have inexact factors.
        fe::NumericalNote_t::WINOGRAD_TILE_4x4, fe::NumericalNote_t::WINOGRAD_TILE_6x6,
        fe::NumericalNote_t::WINOGRAD_TILE_13x13};
    if (spec_.type == DType::kF32 && !spec_.tf32) {
      notes.push_back(fe::NumericalNote_t::TENSOR_CORE);
      notes.push_back(fe::NumericalNote_t::DOWN_CONVERT_INPUTS);
    }
    return notes;
  }

  // Of [rows, channels, height, width], where channels lie together.
  static Attributes Packed(const char* name, std::array<int64_t, 4> dim) {
    const auto [n, c, h, w] = dim;
    Attributes attributes;
    attributes.set_name(name).set_dim({n, c, h, w}).set_stride({c * h * w, 1, c * w, c});
    return attributes;
  }
  Attributes X() const {
    return Packed("x", {spec_.rows, spec_.channels, spec_.height, spec_.width});
  }
  Attributes W() const {
    const auto [height, width] = spec_.window.kernel;
    return Packed("w", {spec_.filters, spec_.channels / spec_.window.groups, height, width});
  }
  Attributes Y() const {
    return Packed("y", {spec_.rows, spec_.filters, spec_.out_height, spec_.out_width});
  }

  Tensor Read(Attributes attributes, Uid uid, DType type) {
    uids_.push_back(uid);
    return tensor(attributes.set_uid(uid).set_data_type(TypeOf(type)));
  }
  Tensor Read(Attributes attributes, Uid uid) { return Read(attributes, uid, spec_.type); }

  // Gives `made` the shape of `attributes`.
  static void SetShape(const Tensor& made, const Attributes& attributes) {
    made->set_name(attributes.get_name());
    made->set_dim(attributes.get_dim()).set_stride(attributes.get_stride());
  }

  template <typename ConvolutionAttributes>
  ConvolutionAttributes Sliding() const {
    const Window& window = spec_.window;
    ConvolutionAttributes attributes;
    attributes.set_pre_padding({window.padding[0], window.padding[2]})
        .set_post_padding({window.padding[1], window.padding[3]})
        .set_stride({window.stride[0], window.stride[1]})
        .set_dilation({window.dilation[0], window.dilation[1]});
    return attributes;
  }

  Tensor Pointwise(fe::PointwiseMode_t mode, const Tensor& a, const Tensor& b = nullptr) {
    fe::graph::Pointwise_attributes attributes;
    attributes.set_mode(mode);
    const Tensor made = b == nullptr ? pointwise(a, attributes) : pointwise(a, b, attributes);
    made->set_dim(a->get_dim()).set_stride(a->get_stride());
    return made;
  }

  void AddProduct() {
    switch (spec_.pass) {
      case ProductPass::kForward:
        return AddForward();
      case ProductPass::kDataGradient:
        return AddDataGradient();
      case ProductPass::kWeightGradient:
        return AddWeightGradient();
    }
  }

  void AddForward() {
    Tensor y =
        conv_fprop(Read(X(), kX), Read(W(), kW), Sliding<fe::graph::Conv_fprop_attributes>());
    SetShape(y, Y());
    if (spec_.has_bias) {
      const Attributes by_filter = Packed("bias", {1, spec_.filters, 1, 1});
      y = Pointwise(fe::PointwiseMode_t::ADD, y, Read(by_filter, kBias, DType::kF32));
    }
    if (spec_.has_relu) y = Pointwise(fe::PointwiseMode_t::RELU_FWD, y);
    Write(y, kY, spec_.has_bias || spec_.has_relu);
  }

  void AddDataGradient() {
    Tensor x =
        conv_dgrad(Read(Y(), kY), Read(W(), kW), Sliding<fe::graph::Conv_dgrad_attributes>());
    SetShape(x, X());
    if (spec_.has_addend) x = Pointwise(fe::PointwiseMode_t::ADD, x, Read(X(), kAddend));
    Write(x, kX, spec_.has_addend);
  }

  void AddWeightGradient() {
    const Tensor w =
        conv_wgrad(Read(Y(), kY), Read(X(), kX), Sliding<fe::graph::Conv_wgrad_attributes>());
    SetShape(w, W());
    Write(w, kW, false);
  }

  // A convolution writes the type that it reads; what is behind it, any.
  void Write(Tensor made, Uid uid, bool has_epilogue) {
    if (!has_epilogue && spec_.result != spec_.type) {
      made = Pointwise(fe::PointwiseMode_t::IDENTITY, made);
    }
    uids_.push_back(uid);
    std::sort(uids_.begin(), uids_.end());
    made->set_uid(uid).set_output(true).set_data_type(TypeOf(spec_.result));
  }

  ProductSpec spec_;
  std::vector<Uid> uids_;  // of the tensors in memory, ascending
};

class CudnnProduct : public Product {
 public:
  CudnnProduct(std::shared_ptr<Handle> handle, std::unique_ptr<ProductGraph> graph)
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
    std::array<void*, kAddend + 1> addresses;
    int count = 0;
    for (const Uid uid : graph_->uids()) addresses[count++] = AddressOf(tensors, uid);
    MILLRACE_RETURN_IF_ERROR(TryCall("cudnnSetStream", [&] {
      return fe::detail::set_stream(handle_->get(), static_cast<cudaStream_t>(stream));
    }));
    return Try(absl::StatusCode::kInternal,
               [&] { return graph_->execute(handle_->get(), addresses.data(), count, workspace); });
  }

 private:
  // The library takes no constant memory, but writes the result alone.
  static void* AddressOf(const ProductTensors& tensors, Uid uid) {
    switch (uid) {
      case kX:
        return tensors.x;
      case kW:
        return tensors.w;
      case kY:
        return tensors.y;
      case kBias:
        return const_cast<float*>(tensors.bias);
      case kAddend:
        return const_cast<void*>(tensors.addend);
    }
    return nullptr;
  }

  const std::shared_ptr<Handle> handle_;
  const std::unique_ptr<ProductGraph> graph_;
  int64_t workspace_bytes_ = 0;
  std::string name_;
};

class Products : public CudnnProducts {
 public:
  Products(CudnnLibrary library, Target target)
      : library_(std::move(library)), target_(std::move(target)) {}

  absl::StatusOr<PlanChoice> Choose(const ProductSpec& spec) override {
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<ProductGraph> graph, ListPlans(spec));
    absl::StatusOr<PlanChoice> choice = graph->FirstPlan();
    if (!choice.ok()) return NoPlan(spec, choice.status());
    return choice;
  }

  absl::StatusOr<std::unique_ptr<Product>> MakeProduct(const ProductSpec& spec) override {
    MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<ProductGraph> graph, ListPlans(spec));
    const absl::Status built = graph->BuildFirstPlan();
    if (!built.ok()) return NoPlan(spec, built);
    auto product = std::make_unique<CudnnProduct>(target_.handle, std::move(graph));
    MILLRACE_RETURN_IF_ERROR(product->Prepare());
    return product;
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
  const Target target_;
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

absl::StatusOr<Target> DescribedDevice(std::string_view json) {
  while (json.ends_with('\n')) json.remove_suffix(1);
  Target target;
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

absl::StatusOr<Target> CurrentDevice(const CudnnLibrary& library) {
  Target target;
  target.handle = std::make_shared<Handle>();
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
  MILLRACE_ASSIGN_OR_RETURN(Target target, options.device_properties.empty()
                                               ? CurrentDevice(library)
                                               : DescribedDevice(options.device_properties));
  return std::make_unique<Products>(std::move(library), std::move(target));
}

}  // namespace millrace::trainer::cuda
