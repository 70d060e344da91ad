#ifndef MILLRACE_TESTS_READERS_HTTP_NGINX_H_
#define MILLRACE_TESTS_READERS_HTTP_NGINX_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>  // NOLINT: kill is POSIX
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/readers/http/http_server.h"
#include "tests/temp_files.h"

// A real web server over a temporary folder.

namespace millrace::readers {

class Nginx {
 public:
  static constexpr const char* kProgram = "/usr/sbin/nginx";
  static bool IsThere() { return ::access(kProgram, X_OK) == 0; }

  // Serves `folder`. It is given a socket that listens already, so nobody waits for it to begin.
  explicit Nginx(const std::string& folder) {
    ::setenv("no_proxy", "127.0.0.1", 1);
    const UniqueFd listener = Listen(&port_);
    WriteFile(home_ / "nginx.conf", Config(folder));
    const std::string inherited = "NGINX=" + std::to_string(listener.get()) + ";";
    const std::string config = home_ / "nginx.conf";
    const std::string log = home_ / "error.log";
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    char* const arguments[] = {const_cast<char*>(kProgram),       const_cast<char*>("-c"),
                               const_cast<char*>(config.c_str()), const_cast<char*>("-e"),
                               const_cast<char*>(log.c_str()),    nullptr};
    char* const environment[] = {const_cast<char*>(inherited.c_str()), nullptr};
    ::execve(kProgram, arguments, environment);
    ::_exit(127);
  }
  ~Nginx() { Stop(SIGTERM); }
  Nginx(const Nginx&) = delete;
  Nginx& operator=(const Nginx&) = delete;

  std::string Url(std::string_view path) const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/" + std::string(path);
  }
  // Ends it after the requests under way, and returns a line for each that there was: status, bytes
  // of the body, the range asked for.
  std::string FinishAndLog() {
    Stop(SIGQUIT);
    return ReadFile(home_ / "access.log");
  }

 private:
  void Stop(int with_signal) {
    if (pid_ > 0) {
      ::kill(pid_, with_signal);
      ::waitpid(pid_, nullptr, 0);
    }
    pid_ = -1;
  }

  // It runs as whoever runs the test, and needs no rights. (Without its master it falls over the
  // socket that it is given.)
  std::string Config(const std::string& folder) const {
    const std::string home = home_.path();
    std::string text = "daemon off; worker_processes 1; pid " + home + "/pid;\n";
    if (::geteuid() == 0) text += "user root;\n";
    text += "events { worker_connections 64; }\nhttp {\n";
    text += "log_format short '$status $body_bytes_sent $http_range';\n";
    text += "access_log " + home + "/access.log short;\n";
    for (const char* part : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
      text += std::string(part) + "_temp_path " + home + "/" + part + ";\n";
    }
    text += "server { listen 127.0.0.1:" + std::to_string(port_) + "; root " + folder + ";\n";
    text += "location /slow/ { alias " + folder + "/; limit_rate 200k; }\n";
    text += "location /rangeless/ { alias " + folder + "/; max_ranges 0; }\n";
    text += "location /forbidden/ { return 403; }\n}\n}\n";
    return text;
  }

  const TempFolder home_;
  uint16_t port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace millrace::readers

#endif  // MILLRACE_TESTS_READERS_HTTP_NGINX_H_
