#include "cli/emulate/emulator.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace millrace::cli {
namespace {

constexpr double kLongestSleep = 1e9;  // seconds; what the clock can count

}  // namespace

EmulatorClock EmulatorClock::Steady() {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  const auto start = Clock::now();
  return {.now = [start] { return Seconds(Clock::now() - start).count(); },
          .sleep_until =
              [start](double time) {
                const Seconds since(std::min(time, kLongestSleep));
                std::this_thread::sleep_until(start +
                                              std::chrono::duration_cast<Clock::duration>(since));
              }};
}

Emulator::Emulator(EmulatorClock clock, int count, double seconds_per_sample)
    : clock_(std::move(clock)), seconds_per_sample_(seconds_per_sample) {
  last_arrival_ = clock_.now();
  accelerators_.assign(static_cast<size_t>(count), {.free_at = last_arrival_});
}

Emulator::State& Emulator::FirstFree() {
  return *std::min_element(accelerators_.begin(), accelerators_.end(),
                           [](const State& a, const State& b) { return a.free_at < b.free_at; });
}

void Emulator::SleepUntilFree(double limit) {
  const double until = std::min(FirstFree().free_at, limit);
  if (until > clock_.now()) clock_.sleep_until(until);
}

void Emulator::Ask() { asked_ = clock_.now(); }

void Emulator::Deliver(int64_t rows) {
  State& accelerator = FirstFree();
  const double arrived = clock_.now();
  const double nominal = static_cast<double>(rows) * seconds_per_sample_;
  const double end = arrived + nominal;
  if (accelerator.started) {
    // It has also waited while another accelerator waited for a batch, but not while the host did
    // something else or slept too long.
    const double behind = std::max(0.0, last_arrival_ - accelerator.free_at);
    sums_.Add({.wait = arrived - asked_ + behind,
               .nominal = nominal,
               .whole = end - accelerator.free_at});
  }
  accelerator = {.free_at = end, .started = true};
  last_arrival_ = arrived;
}

void Emulator::Drain(double limit) const {
  double until = 0;
  for (const State& accelerator : accelerators_) until = std::max(until, accelerator.free_at);
  until = std::min(until, limit);
  if (until > clock_.now()) clock_.sleep_until(until);
}

void Emulator::Measure() {
  sums_ = {};
  const double now = clock_.now();
  for (State& accelerator : accelerators_) {
    accelerator = {.free_at = std::max(accelerator.free_at, now), .started = true};
  }
}

void Emulator::CountIdle() {
  const double now = clock_.now();
  for (State& accelerator : accelerators_) {
    if (accelerator.free_at >= now) continue;
    if (accelerator.started) sums_.AddIdle(now - accelerator.free_at);
    accelerator.free_at = now;
  }
}

bool Emulator::all_started() const {
  return std::all_of(accelerators_.begin(), accelerators_.end(),
                     [](const State& accelerator) { return accelerator.started; });
}

}  // namespace millrace::cli
