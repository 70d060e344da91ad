#include "cli/doctor/doctor.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/command.h"
#include "cli/doctor/report.h"
#include "cli/exit.h"
#include "cli/wait/progress.h"

// `millrace doctor` looks at this machine as a place to run Millrace.

namespace millrace::cli {
namespace {

struct Flags {
  std::vector<std::string> data;
  double seconds = 10;
  double gpu_timeout = 10;
  bool json = false;
};

// The percentage that is done is that of the time.
doctor::Findings ExamineThisHost(const Flags& flags) {
  Progress progress("doctor", "", 0);
  progress.SetLimit(flags.seconds);
  doctor::DoctorOptions options;
  options.data = flags.data;
  options.seconds = flags.seconds;
  options.gpu_timeout_seconds = flags.gpu_timeout;
  options.tick = [&progress] { progress.Add(1); };
  doctor::Host host = doctor::ThisHost();
  doctor::Measure(options, host);
  return doctor::Examine(host);
}

int Run(const Flags& flags) {
  const doctor::Findings findings = ExamineThisHost(flags);
  const std::string text =
      flags.json ? doctor::FindingsJson(findings) + "\n" : doctor::FindingsText(findings);
  std::fputs(text.c_str(), stdout);
  return doctor::Count(findings).failures > 0 ? kFailed : kDone;
}

}  // namespace

void AddDoctor(Command parent) {
  auto flags = std::make_shared<Flags>();
  Command command = parent.AddCommand(
      "doctor", "Look at this machine: cores, memory, limits, disks, GPUs and their libraries");
  command
      .Add("--data", flags->data, "Shards, patterns or folders whose disk is measured; repeatable")
      .OneValueEach();
  command.Add("--seconds", flags->seconds, "The time of all measurements together")
      .Finite(0.1, 3600)
      .ShowDefault();
  command
      .Add("--gpu-timeout", flags->gpu_timeout,
           "Seconds within which each call of a GPU's driver must come back")
      .Finite(2, 3600)
      .ShowDefault();
  command.AddSwitch("--json", flags->json, "One JSON object on standard output");
  command.Footer(
      "Each check is a line: OK, WARN (Millrace runs, but slower or not in every way), FAIL (a "
      "part\n"
      "that is there does not work) or SKIP (there is nothing to look at), the finding, and below\n"
      "it, behind \"->\", the command or setting that mends it. Nothing is changed, and root is "
      "not\n"
      "needed. docs/doctor.md describes the checks, and gives the reasons of their limits.\n\n"
      "Exit codes: 0 no FAIL; 1 a FAIL; 2 wrong command line.\n\n"
      "Examples:\n"
      "  millrace doctor\n"
      "  millrace doctor --data /data/imagenet --seconds 30\n"
      "  millrace doctor --json");
  command.Do([flags] { return Run(*flags); });
}

}  // namespace millrace::cli
