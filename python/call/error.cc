#include "python/call/error.h"

#include <memory>

namespace millrace::python {
namespace {

Ref RecordOf(const mr_error* error) {
  mr_record record = {};
  record.struct_size = sizeof record;
  if (!mr_error_record(error, &record)) return Ref::Borrow(Py_None);
  return Checked(Py_BuildValue("(NLLLi)", Text(record.file).release(),
                               static_cast<long long>(record.offset),
                               static_cast<long long>(record.ordinal),
                               static_cast<long long>(record.position), record.reason));
}

Ref PeerOf(const mr_error* error) {
  mr_peer peer = {};
  peer.struct_size = sizeof peer;
  if (!mr_error_peer(error, &peer)) return Ref::Borrow(Py_None);
  return Checked(Py_BuildValue("(iiLs)", peer.rank, peer.bucket, static_cast<long long>(peer.step),
                               peer.phase));
}

}  // namespace

Ref ExceptionOf(const mr_error* error) {
  const Ref errors = Checked(PyImport_ImportModule("millrace.errors"));
  const Ref message = Text(mr_error_message(error));
  return Checked(PyObject_CallMethod(errors.get(), "from_code", "iOiNN", mr_error_code(error),
                                     message.get(), mr_error_retryable(error),
                                     RecordOf(error).release(), PeerOf(error).release()));
}

Ref ExceptionOf(mr_error* error) {
  const std::unique_ptr<mr_error, decltype(&mr_error_free)> owned(error, mr_error_free);
  return ExceptionOf(static_cast<const mr_error*>(error));
}

void Check(mr_error* error) {
  if (error == nullptr) return;
  const Ref exception = ExceptionOf(error);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
  throw Raised();
}

}  // namespace millrace::python
