#ifndef MILLRACE_BASE_OVERLOADED_H_
#define MILLRACE_BASE_OVERLOADED_H_

namespace millrace {

// A visitor of a variant, made of a lambda for each alternative.
template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace millrace

#endif  // MILLRACE_BASE_OVERLOADED_H_
