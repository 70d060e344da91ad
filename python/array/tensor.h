#ifndef MILLRACE_PYTHON_ARRAY_TENSOR_H_
#define MILLRACE_PYTHON_ARRAY_TENSOR_H_

#include "capi/millrace.h"
#include "python/call/object.h"

namespace millrace::python {

// A view of memory: of a batch, which it holds, or of a call of an op, which it must not outlive.
// Python sees __dlpack__ and __array_struct__, so that every library makes its own view of it.
struct Tensor {
  PyObject_HEAD;
  PyObject* holder;  // the object that owns the memory; NULL in the call of an op
  void* data;
  int32_t dtype;  // an mr_dtype
  int32_t rank;
  int64_t shape[MR_MAX_RANK + 1];
  int64_t strides[MR_MAX_RANK + 1];  // in bytes
  bool readonly;
};

void AddTensor(PyObject* module);

// Makes a row-major view without gaps of a value with this shape. `holder` may be NULL.
Tensor* MakeTensor(PyObject* holder, void* data, int32_t dtype, int32_t rank, const int64_t* shape,
                   bool readonly);
// The same of `rows` values, each `stride_bytes` behind the one before it.
Tensor* MakeRows(void* data, int32_t dtype, int64_t rows, int64_t stride_bytes, int32_t rank,
                 const int64_t* shape, bool readonly);

// Returns the NumPy array of a tensor. That of bfloat16 needs ml_dtypes.
Ref ArrayOf(PyObject* tensor);

// Returns a NumPy array of bools, a copy of these bytes of 0 and 1.
Ref BoolsOf(const uint8_t* bytes, int64_t rows);

inline PyObject* AsObject(Tensor* tensor) { return reinterpret_cast<PyObject*>(tensor); }

// Returns a tuple of extents.
Ref Extents(const int64_t* shape, int32_t rank);

// Returns the bytes of an element.
int64_t BytesOf(int32_t dtype);
// Returns the letter of NumPy's array interface, which has no bfloat16: its bits as integers, 'u'.
char KindOf(int32_t dtype);
// Returns the name, such as "float32".
const char* NameOf(int32_t dtype);
// Returns the mr_dtype of a name; throws ValueError if there is none.
int32_t DtypeOf(const std::string& name);

}  // namespace millrace::python

#endif  // MILLRACE_PYTHON_ARRAY_TENSOR_H_
