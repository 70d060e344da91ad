#ifndef MILLRACE_CLI_TUNE_SETTING_H_
#define MILLRACE_CLI_TUNE_SETTING_H_

#include <array>
#include <cstddef>
#include <string_view>

#include "pipeline/performance.h"

// The settings that `millrace tune` may change: those of a plan's `performance`, and the ring. A
// job says two of them for itself, and the others by its plan.

namespace millrace::cli {

using Settings = pipeline::Performance;  // 0: the default

enum class Setting { kThreads, kIoThreads, kReadAhead, kRun, kRing, kMemory };
inline constexpr std::array kSettings = {Setting::kThreads,   Setting::kIoThreads,
                                         Setting::kReadAhead, Setting::kRun,
                                         Setting::kRing,      Setting::kMemory};

// The field of pipeline::FieldChange, in a plan.
std::string_view FieldOf(Setting setting);
// The field of a job; empty: it has none, and its plan's counts.
std::string_view JobFieldOf(Setting setting);
// The largest value.
int MostOf(Setting setting);
int& ValueOf(Settings& settings, Setting setting);
int ValueOf(const Settings& settings, Setting setting);

// The defaults that the plan and the machine decide.
struct Defaults {
  int threads = 1;  // of a plan the usable cores
  int ring = 2;
  int memory_budget_mib = 2048;
  int cores = 1;  // usable ones
};

// Returns the value that counts: that of the settings, else the default beside the others.
int InEffect(const Settings& settings, Setting setting, const Defaults& defaults);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TUNE_SETTING_H_
