#ifndef MILLRACE_CLI_PROGRAM_H_
#define MILLRACE_CLI_PROGRAM_H_

#include <string>

namespace millrace::cli {

class Command;  // cli/flags/command_line.h

// What a program adds to the commands on data, which every program has.
struct Jobs {
  std::string facts;                    // lines of --version, each with its line end
  std::string examples;                 // lines of --help, each with its line end
  void (*add)(Command& top) = nullptr;  // adds the commands that start jobs; null: there are none
};

// Runs the command line and returns its exit code. Called once in a process, before it has threads.
int RunProgram(int argc, char** argv, const Jobs& jobs = {});

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_PROGRAM_H_
