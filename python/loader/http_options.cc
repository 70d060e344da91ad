#include "python/loader/http_options.h"

#include "python/call/error.h"
#include "python/call/lock.h"

namespace millrace::python {
namespace {

using Options = mr_http_options;

struct Narrow {
  const char* name;
  int32_t Options::*field;
};
struct Wide {
  const char* name;
  int64_t Options::*field;
};
const Narrow kNarrow[] = {{"max_redirects", &Options::max_redirects},
                          {"max_attempts", &Options::max_attempts},
                          {"read_ahead_blocks", &Options::read_ahead_blocks},
                          {"max_in_flight", &Options::max_in_flight}};
const Wide kWide[] = {{"max_retry_time_ms", &Options::max_retry_time_ms},
                      {"stall_time_ms", &Options::stall_time_ms},
                      {"min_bytes_per_second", &Options::min_bytes_per_second},
                      {"backoff_ms", &Options::backoff_ms},
                      {"max_backoff_ms", &Options::max_backoff_ms},
                      {"block_bytes", &Options::block_bytes},
                      {"cache_bytes", &Options::cache_bytes}};

// Returns the number of a name; 0 if there is none.
int64_t NumberOf(PyObject* dict, const char* name) {
  const Ref key = Text(name);
  PyObject* const number = PyDict_GetItemWithError(dict, key.get());
  const long long value = number == nullptr ? 0 : PyLong_AsLongLong(number);
  if (PyErr_Occurred() != nullptr) throw Raised();
  return value;
}

// Adds the headers that the function returns. An exception of it is shown, and the request goes
// without them.
void Sign(void* function, const char* url, uint64_t first, uint64_t last, mr_sink add,
          void* headers) {
  const Locked locked;
  if (!locked) return;
  auto* const callable = static_cast<PyObject*>(function);
  try {
    const Ref list =
        Checked(PyObject_CallFunction(callable, "sKK", url, static_cast<unsigned long long>(first),
                                      static_cast<unsigned long long>(last)));
    for (const std::string& header : TextsOf(list.get())) {
      add(headers, header.data(), header.size());
    }
  } catch (const Raised&) {
    PyErr_WriteUnraisable(callable);
  }
}

void DropFunction(void* function) {
  const Locked locked;
  if (locked) Py_DECREF(static_cast<PyObject*>(function));
}

}  // namespace

HttpArguments::~HttpArguments() {
  if (!is_given_ && options_.sign_user != nullptr) {
    Py_DECREF(static_cast<PyObject*>(options_.sign_user));
  }
}

void HttpArguments::Take(PyObject* dict) {
  if (!PyDict_Check(dict)) Raise(PyExc_TypeError, "http is no dict");
  for (const Narrow& one : kNarrow) {
    options_.*one.field = static_cast<int32_t>(NumberOf(dict, one.name));
  }
  for (const Wide& one : kWide) options_.*one.field = NumberOf(dict, one.name);
  const Ref ca_file = Text("ca_file");
  if (PyObject* const file = PyDict_GetItemWithError(dict, ca_file.get())) {
    ca_file_ = TextOf(file);
    options_.ca_file = ca_file_.c_str();
  }
  const Ref sign = Text("sign");
  if (PyObject* const function = PyDict_GetItemWithError(dict, sign.get())) {
    options_.sign = Sign;
    options_.sign_user = Ref::Borrow(function).release();
    options_.sign_destroy = DropFunction;
  }
}

const mr_http_options* HttpArguments::Give() {
  is_given_ = true;
  return &options_;
}

}  // namespace millrace::python
