#ifndef MILLRACE_TRAINER_BACKEND_CUDA_CUDNN_PRODUCT_GRAPH_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_CUDNN_PRODUCT_GRAPH_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "trainer/backend/cuda/cudnn/frontend.h"
#include "trainer/backend/cuda/cudnn/products.h"

namespace millrace::trainer::cuda {

// A product as a graph of cuDNN: a convolution or a gradient of one, then its epilogue as pointwise
// operations, whose values between are float32 and virtual: in no memory. cuDNN's heuristics list
// plans for it, the quickest first by their estimate.
class ProductGraph : public fe::graph::Graph {
 public:
  // The names of tensors. Their order is that of the addresses in Run.
  enum Uid : int64_t { kX = 1, kW, kY, kBias, kAddend };

  ProductGraph(const ProductSpec& spec, const PlanTarget& target) : spec_(spec) {
    set_io_data_type(TypeOf(spec.type));
    set_intermediate_data_type(fe::DataType_t::FLOAT);
    set_compute_data_type(fe::DataType_t::FLOAT);
    set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);
    if (target.sm_version > 0) set_sm_version(target.sm_version);
    if (target.handle == nullptr) set_device_properties(target.properties);
    AddProduct();
  }

  // Makes the list of plans.
  absl::Status ListPlans(const PlanTarget& target) {
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

  // The names of the first plans that are supported. REQUIRES: ListPlans was OK.
  absl::StatusOr<std::vector<std::string>> FirstPlans(size_t most) {
    std::vector<std::string> names;
    for (int64_t i = 0; i < get_execution_plan_count() && names.size() < most; ++i) {
      if (plans.check_support_at_index(i).is_bad()) continue;
      std::string name;
      MILLRACE_RETURN_IF_ERROR(TryPlan([&] { return get_plan_name_at_index(i, name); }));
      const bool is_new = std::ranges::find(names, name) == names.end();
      if (is_new) names.push_back(std::move(name));
    }
    return names;
  }

  // Makes a plan ready to run: the first that can be, or that of a name.
  // REQUIRES: ListPlans was OK.
  //   NOT_FOUND  no supported plan has the name
  absl::Status BuildFirstPlan() {
    return TryPlan([&] { return build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE, false); });
  }
  absl::Status BuildPlan(const std::string& name) {
    for (int64_t i = 0; i < get_execution_plan_count(); ++i) {
      std::string found;
      MILLRACE_RETURN_IF_ERROR(TryPlan([&] { return get_plan_name_at_index(i, found); }));
      if (found != name || plans.check_support_at_index(i).is_bad()) continue;
      return TryPlan([&] { return build_plan_at_index(i); });
    }
    return absl::NotFoundError(absl::StrCat("no plan ", name));
  }

  const std::vector<Uid>& uids() const { return uids_; }

 private:
  using Attributes = fe::graph::Tensor_attributes;
  using Tensor = std::shared_ptr<Attributes>;

  // Plans that need more scratch memory are not taken.
  static constexpr int64_t kMaxWorkspace = int64_t{2} << 30;

  static fe::DataType_t TypeOf(DType type) {
    if (type == DType::kBF16) return fe::DataType_t::BFLOAT16;
    if (type == DType::kF16) return fe::DataType_t::HALF;
    return fe::DataType_t::FLOAT;
  }

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

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_CUDNN_PRODUCT_GRAPH_H_
