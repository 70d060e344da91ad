#include "collectives/core/reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/half.h"

namespace millrace::collectives {
namespace {

// Integers wrap.
template <typename T, typename F>
T Wrapping(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    using Wide = std::common_type_t<U, unsigned>;
    return static_cast<T>(static_cast<U>(
        f(static_cast<Wide>(static_cast<U>(a)), static_cast<Wide>(static_cast<U>(b)))));
  } else {
    return f(a, b);
  }
}

float Widened(Half value) { return ToFloat(value); }
float Widened(BFloat value) { return ToFloat(value); }
template <typename T>
T Widened(T value) {
  return value;
}

void Narrow(float value, Half* out) { *out = ToHalf(value); }
void Narrow(float value, BFloat* out) { *out = ToBFloat(value); }
template <typename T>
void Narrow(T value, T* out) {
  *out = value;
}

template <typename T>
using AccumulatorOf = decltype(Widened(T()));

template <typename T, typename F>
void ForEach(void* accumulator, const void* in, size_t count, F f) {
  AccumulatorOf<T>* __restrict a = static_cast<AccumulatorOf<T>*>(accumulator);
  const T* __restrict b = static_cast<const T*>(in);
  for (size_t i = 0; i < count; ++i) a[i] = f(a[i], Widened(b[i]));
}

template <typename T>
void AccumulateAs(ReduceOp op, void* accumulator, const void* in, size_t count) {
  using A = AccumulatorOf<T>;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return ForEach<T>(accumulator, in, count, [](A a, A b) {
        return Wrapping(a, b, [](auto x, auto y) { return x + y; });
      });
    case ReduceOp::kProduct:
      return ForEach<T>(accumulator, in, count, [](A a, A b) {
        return Wrapping(a, b, [](auto x, auto y) { return x * y; });
      });
    case ReduceOp::kMin:
      return ForEach<T>(accumulator, in, count, [](A a, A b) { return std::min(a, b); });
    case ReduceOp::kMax:
      return ForEach<T>(accumulator, in, count, [](A a, A b) { return std::max(a, b); });
  }
}

template <typename T>
void BeginAs(void* accumulator, const void* in, size_t count) {
  if (accumulator == in) return;
  auto* a = static_cast<AccumulatorOf<T>*>(accumulator);
  const T* b = static_cast<const T*>(in);
  for (size_t i = 0; i < count; ++i) a[i] = Widened(b[i]);
}

template <typename T>
void EndAs(ReduceOp op, int num_ranks, const void* accumulator, void* out, size_t count) {
  using A = AccumulatorOf<T>;
  const A* a = static_cast<const A*>(accumulator);
  T* o = static_cast<T*>(out);
  if constexpr (std::is_floating_point_v<A>) {
    if (op == ReduceOp::kAverage) {
      const A divisor = static_cast<A>(num_ranks);
      for (size_t i = 0; i < count; ++i) Narrow(a[i] / divisor, &o[i]);
      return;
    }
  }
  if (accumulator == out) return;
  for (size_t i = 0; i < count; ++i) Narrow(a[i], &o[i]);
}

// f.template operator()<T>() for the element type; nothing for a type that is not taken.
template <typename F>
void WithType(DType dtype, F f) {
  switch (dtype) {
    case DType::kU8:
      return f.template operator()<uint8_t>();
    case DType::kI32:
      return f.template operator()<int32_t>();
    case DType::kI64:
      return f.template operator()<int64_t>();
    case DType::kF16:
      return f.template operator()<Half>();
    case DType::kBF16:
      return f.template operator()<BFloat>();
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kF64:
      return f.template operator()<double>();
    default:
      return;
  }
}

}  // namespace

bool IsTaken(DType dtype) {
  bool taken = false;
  WithType(dtype, [&taken]<typename T>() { taken = true; });
  return taken;
}

std::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kAverage:
      return "average";
  }
  return "unknown";
}

std::string_view Name(Collective kind) {
  switch (kind) {
    case Collective::kAllReduce:
      return "AllReduce";
    case Collective::kReduceScatter:
      return "ReduceScatter";
    case Collective::kAllGather:
      return "AllGather";
    case Collective::kBroadcast:
      return "Broadcast";
    case Collective::kReduce:
      return "Reduce";
    case Collective::kAllToAll:
      return "AllToAll";
    case Collective::kBarrier:
      return "Barrier";
    case Collective::kSend:
      return "Send";
    case Collective::kRecv:
      return "Recv";
  }
  return "unknown";
}

DType AccumulatorType(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ? DType::kF32 : dtype;
}

void BeginReduction(DType dtype, void* accumulator, const void* in, size_t count) {
  WithType(dtype, [&]<typename T>() { BeginAs<T>(accumulator, in, count); });
}

void Accumulate(DType dtype, ReduceOp op, void* accumulator, const void* in, size_t count) {
  WithType(dtype, [&]<typename T>() { AccumulateAs<T>(op, accumulator, in, count); });
}

void EndReduction(DType dtype, ReduceOp op, int num_ranks, const void* accumulator, void* out,
                  size_t count) {
  WithType(dtype, [&]<typename T>() { EndAs<T>(op, num_ranks, accumulator, out, count); });
}

}  // namespace millrace::collectives
