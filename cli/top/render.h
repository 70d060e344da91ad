#ifndef MILLRACE_CLI_TOP_RENDER_H_
#define MILLRACE_CLI_TOP_RENDER_H_

#include <span>
#include <string>
#include <vector>

#include "cli/live/snapshot.h"
#include "pipeline/diagnosis.h"

namespace millrace::cli {

// The facts that are shown.
struct Shown {
  const Snapshot* earlier = nullptr;   // null: the figures are since the beginning
  const Snapshot* now = nullptr;       // never null
  std::span<const double> rates = {};  // samples per second at the turns until now, the newest last
  // VerdictOf the difference.
  std::string verdict = {};
  std::vector<pipeline::WhatIf> what_ifs = {};
};

// The part of the screen below the verdict.
enum class View {
  kFigures,
  kWhatIfs,  // the changes, and the rates that they would bring
};

// Lines of at most `width` columns, in ASCII. docs/top.md describes them. REQUIRES: width >= 40.
std::vector<std::string> RenderScreen(const Shown& shown, int width, View view = View::kFigures);

// The most important figures on one line, for a log.
std::string RenderLine(const Shown& shown);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_TOP_RENDER_H_
