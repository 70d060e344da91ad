#ifndef MILLRACE_PYTHON_LOADER_HTTP_OPTIONS_H_
#define MILLRACE_PYTHON_LOADER_HTTP_OPTIONS_H_

#include <string>

#include "capi/millrace_options.h"
#include "python/call/object.h"

namespace millrace::python {

// How URLs are read: the options in C of a dict, which has numbers by the names of their fields,
// "ca_file" as a str and "sign" as a function of (url, first, last) that returns a list of headers.
class HttpArguments {
 public:
  HttpArguments() { options_.struct_size = sizeof options_; }
  HttpArguments(const HttpArguments&) = delete;
  HttpArguments& operator=(const HttpArguments&) = delete;
  // The function is given up if no call has taken the options.
  ~HttpArguments();

  // Throws what Python raises for a wrong one.
  void Take(PyObject* dict);
  // For one call that opens, which takes the function.
  const mr_http_options* Give();

 private:
  mr_http_options options_ = {};
  std::string ca_file_;
  bool is_given_ = false;
};

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_LOADER_HTTP_OPTIONS_H_
