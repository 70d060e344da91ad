#include "tests/trainer/backend/cuda/fiber.h"

#include <cstdint>
#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define MILLRACE_ADDRESS_SANITIZED 1
#elif defined(__has_feature)
#define MILLRACE_ADDRESS_SANITIZED __has_feature(address_sanitizer)
#else
#define MILLRACE_ADDRESS_SANITIZED 0
#endif
#if MILLRACE_ADDRESS_SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)

// Puts the registers that a function keeps on the stack, the stack's top to *from, and goes on with
// the stack *to. ucontext would ask the kernel for the signal mask each time.
extern "C" void MillraceSwitchFiber(void** from, void** to);
asm(R"(
.text
.type MillraceSwitchFiber, @function
.globl MillraceSwitchFiber
.hidden MillraceSwitchFiber
MillraceSwitchFiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq (%rsi), %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size MillraceSwitchFiber, .-MillraceSwitchFiber
)");

#endif

namespace millrace::trainer::cuda::simt {
namespace {

constexpr size_t kStackBytes = 128 << 10;

// Stacks begin at different distances from the ends of pages: else what they all use would lie in
// one set of a processor's cache.
constexpr size_t kSpread = 16 << 10;
size_t NextDistance() {
  static thread_local size_t distance = 0;
  distance = (distance + 704) % kSpread;
  return distance;
}

#if defined(__x86_64__)

// The registers that a function keeps lie on the stack that it left; its top is here.
using Registers = void*;

void Switch(Registers* from, Registers* to) { MillraceSwitchFiber(from, to); }

// A stack from which Switch returns to `body`: the six registers and the address, which a call
// would have put at a multiple of 16.
void Prepare(Registers* registers, std::byte* stack, void (*body)()) {
  auto* const end = reinterpret_cast<uintptr_t*>(
      (reinterpret_cast<uintptr_t>(stack) + kStackBytes - 64 - NextDistance()) / 16 * 16);
  *end = reinterpret_cast<uintptr_t>(body);
  for (int i = 1; i <= 6; ++i) *(end - i) = 0;
  *registers = end - 6;
}

#else

using Registers = ucontext_t;

void Switch(Registers* from, Registers* to) { swapcontext(from, to); }

void Prepare(Registers* registers, std::byte* stack, void (*body)()) {
  getcontext(registers);
  registers->uc_stack = {.ss_sp = stack, .ss_flags = 0, .ss_size = kStackBytes - NextDistance()};
  makecontext(registers, body, 0);
}

#endif

}  // namespace

thread_local constinit Fiber::State* Fiber::running_ = nullptr;

struct Fiber::State {
  explicit State(void (*body_in)()) : body(body_in) { Prepare(&registers, stack.get(), Begin); }

  static void Begin();
  void Enter();   // from the caller's stack to this
  void Return();  // the other way round

  void (*const body)();
  const std::unique_ptr<std::byte[]> stack =
      std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  Registers registers = {};
  Registers caller = {};
  // The stacks as AddressSanitizer knows them.
  void* fake_stack = nullptr;
  void* caller_fake_stack = nullptr;
  const void* caller_stack = nullptr;
  size_t caller_bytes = 0;
};

void Fiber::State::Begin() {
#if MILLRACE_ADDRESS_SANITIZED
  __sanitizer_finish_switch_fiber(nullptr, &running_->caller_stack, &running_->caller_bytes);
#endif
  running_->body();
}

void Fiber::State::Enter() {
#if MILLRACE_ADDRESS_SANITIZED
  __sanitizer_start_switch_fiber(&caller_fake_stack, stack.get(), kStackBytes);
#endif
  Switch(&caller, &registers);
#if MILLRACE_ADDRESS_SANITIZED
  __sanitizer_finish_switch_fiber(caller_fake_stack, nullptr, nullptr);
#endif
}

void Fiber::State::Return() {
#if MILLRACE_ADDRESS_SANITIZED
  __sanitizer_start_switch_fiber(&fake_stack, caller_stack, caller_bytes);
#endif
  Switch(&registers, &caller);
#if MILLRACE_ADDRESS_SANITIZED
  __sanitizer_finish_switch_fiber(fake_stack, &caller_stack, &caller_bytes);
#endif
}

Fiber::Fiber(void (*body)()) : state_(std::make_unique<State>(body)) {}
Fiber::~Fiber() = default;
Fiber::Fiber(Fiber&&) noexcept = default;

void Fiber::Resume() {
  running_ = state_.get();
  state_->Enter();
  running_ = nullptr;
}

void Fiber::Pause() { running_->Return(); }

}  // namespace millrace::trainer::cuda::simt
