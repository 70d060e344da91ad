#include "python/array/tensor.h"

#include <array>
#include <memory>

#include "capi/dlpack.h"
#include "python/array/dlpack.h"
#include "python/call/lock.h"

namespace millrace::python {
namespace {

struct Dtype {
  const char* name;
  int64_t bytes;
  uint8_t code;  // DLPack's
  char kind;     // of NumPy's array interface, which has no bfloat16: its bits as integers
};
constexpr std::array<Dtype, 8> kDtypes = {{{"bytes", 1, kDLUInt, 'u'},
                                           {"uint8", 1, kDLUInt, 'u'},
                                           {"int32", 4, kDLInt, 'i'},
                                           {"int64", 8, kDLInt, 'i'},
                                           {"float16", 2, kDLFloat, 'f'},
                                           {"bfloat16", 2, kDLBfloat, 'u'},
                                           {"float32", 4, kDLFloat, 'f'},
                                           {"float64", 8, kDLFloat, 'f'}}};

constexpr DLDevice kCpu = {kDLCPU, 0};

PyTypeObject* tensor_type = nullptr;

Tensor* AsTensor(PyObject* object) { return reinterpret_cast<Tensor*>(object); }

void Dealloc(PyObject* object) {
  Py_XDECREF(AsTensor(object)->holder);
  Free(object);
}

// ---- NumPy: the C struct of its array interface, version 2 ----

struct ArrayInterface {
  int two;
  int rank;
  char kind;
  int itemsize;
  int flags;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  void* data;
  PyObject* descr;
};
constexpr int kAligned = 0x100;
constexpr int kNotSwapped = 0x200;
constexpr int kWriteable = 0x400;

void FreeInterface(PyObject* capsule) {
  delete static_cast<ArrayInterface*>(PyCapsule_GetPointer(capsule, nullptr));
}

// NumPy's array holds the tensor that it was made of, so that the struct may point into it.
PyObject* ArrayStruct(PyObject* self, void*) {
  return Call([&] {
    Tensor* const tensor = AsTensor(self);
    const Dtype& dtype = kDtypes[tensor->dtype];
    static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
    auto interface = std::make_unique<ArrayInterface>(
        ArrayInterface{.two = 2,
                       .rank = tensor->rank,
                       .kind = dtype.kind,
                       .itemsize = static_cast<int>(dtype.bytes),
                       .flags = kAligned | kNotSwapped | (tensor->readonly ? 0 : kWriteable),
                       .shape = reinterpret_cast<Py_ssize_t*>(tensor->shape),
                       .strides = reinterpret_cast<Py_ssize_t*>(tensor->strides),
                       .data = tensor->data,
                       .descr = nullptr});
    Ref capsule = Checked(PyCapsule_New(interface.get(), nullptr, FreeInterface));
    interface.release();
    return capsule;
  });
}

// ---- DLPack ----

// The struct that a consumer gets, with its extents, and the tensor that it holds.
template <typename Managed>
struct Held {
  Managed managed = {};
  std::array<int64_t, MR_MAX_RANK + 1> strides = {};  // in elements
  PyObject* tensor = nullptr;

  // Any thread may call it.
  static void Delete(Managed* managed) {
    auto* const held = static_cast<Held*>(managed->manager_ctx);
    if (const Locked locked; locked) Py_DECREF(held->tensor);
    delete held;
  }
};

DLTensor Describe(Tensor* tensor, int64_t* strides) {
  const Dtype& dtype = kDtypes[tensor->dtype];
  for (int i = 0; i < tensor->rank; ++i) strides[i] = tensor->strides[i] / dtype.bytes;
  return {.data = tensor->data,
          .device = kCpu,
          .ndim = tensor->rank,
          .dtype = {dtype.code, static_cast<uint8_t>(8 * dtype.bytes), 1},
          .shape = tensor->shape,
          .strides = strides,
          .byte_offset = 0};
}

template <typename Managed>
Ref Hand(Tensor* tensor, const Managed& start) {
  auto held = std::make_unique<Held<Managed>>();
  held->managed = start;
  held->managed.dl_tensor = Describe(tensor, held->strides.data());
  held->managed.manager_ctx = held.get();
  held->managed.deleter = Held<Managed>::Delete;
  Py_INCREF(AsObject(tensor));
  held->tensor = AsObject(tensor);
  return CapsuleOf(&held.release()->managed);
}

PyObject* ToDlpack(PyObject* self, PyObject* arguments, PyObject* keywords) {
  return Call([&] {
    const DlpackArguments asked(arguments, keywords, kCpu);
    Tensor* const tensor = AsTensor(self);
    if (asked.takes_versions) {
      DLManagedTensorVersioned versioned = {};
      versioned.version = {1, 0};
      versioned.flags = tensor->readonly ? kDLFlagReadOnly : 0;
      return Hand(tensor, versioned);
    }
    CheckWriteable(tensor->readonly);
    return Hand(tensor, DLManagedTensor());
  });
}

PyObject* DlpackDevice(PyObject*, PyObject*) {
  return Call([] { return DeviceTuple(kCpu); });
}

// ---- What it says of itself ----

PyObject* Shape(PyObject* self, void*) {
  return Call([&] { return Extents(AsTensor(self)->shape, AsTensor(self)->rank); });
}

PyObject* DtypeName(PyObject* self, void*) {
  return PyUnicode_FromString(NameOf(AsTensor(self)->dtype));
}

PyObject* Address(PyObject* self, void*) { return PyLong_FromVoidPtr(AsTensor(self)->data); }

PyMethodDef methods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(ToDlpack)),
     METH_VARARGS | METH_KEYWORDS, "Returns a DLPack capsule that shares the memory."},
    {"__dlpack_device__", DlpackDevice, METH_NOARGS, "Returns (1, 0), the CPU."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {
    {"__array_struct__", ArrayStruct, nullptr, "NumPy's array interface.", nullptr},
    {"shape", Shape, nullptr, "The extents.", nullptr},
    {"dtype", DtypeName, nullptr, "The type of the elements, such as 'float32'.", nullptr},
    {"address", Address, nullptr, "The address of the first element.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("A view of a batch's memory, for DLPack and NumPy.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, nullptr}};

PyType_Spec spec = {"millrace._core.Tensor", sizeof(Tensor), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

void AddTensor(PyObject* module) { tensor_type = AddType(module, &spec); }

Tensor* MakeTensor(PyObject* holder, void* data, int32_t dtype, int32_t rank, const int64_t* shape,
                   bool readonly) {
  auto* const tensor = Make<Tensor>(tensor_type);
  Py_XINCREF(holder);
  tensor->holder = holder;
  tensor->data = data;
  tensor->dtype = dtype;
  tensor->rank = rank;
  tensor->readonly = readonly;
  int64_t stride = BytesOf(dtype);
  for (int i = rank - 1; i >= 0; --i) {
    tensor->shape[i] = shape[i];
    tensor->strides[i] = stride;
    stride *= shape[i];
  }
  return tensor;
}

Tensor* MakeRows(void* data, int32_t dtype, int64_t rows, int64_t stride_bytes, int32_t rank,
                 const int64_t* shape, bool readonly) {
  std::array<int64_t, MR_MAX_RANK + 1> extents = {rows};
  for (int i = 0; i < rank; ++i) extents[i + 1] = shape[i];
  Tensor* const tensor = MakeTensor(nullptr, data, dtype, rank + 1, extents.data(), readonly);
  tensor->strides[0] = stride_bytes;
  return tensor;
}

Ref ArrayOf(PyObject* tensor) {
  Ref bits = ToNumpy(tensor);
  if (AsTensor(tensor)->dtype != MR_BFLOAT16) return bits;
  const Ref types = Checked(PyImport_ImportModule("ml_dtypes"));
  const Ref type = Checked(PyObject_GetAttrString(types.get(), "bfloat16"));
  return Checked(PyObject_CallMethod(bits.get(), "view", "O", type.get()));
}

Ref BoolsOf(const uint8_t* bytes, int64_t rows) {
  const Ref numpy = Checked(PyImport_ImportModule("numpy"));
  return Checked(PyObject_CallMethod(numpy.get(), "frombuffer", "y#s",
                                     reinterpret_cast<const char*>(bytes),
                                     static_cast<Py_ssize_t>(rows), "?"));
}

Ref Extents(const int64_t* shape, int32_t rank) {
  Ref extents = Checked(PyTuple_New(rank));
  for (int32_t i = 0; i < rank; ++i) {
    CheckedZero(
        PyTuple_SetItem(extents.get(), i, Checked(PyLong_FromLongLong(shape[i])).release()));
  }
  return extents;
}

char KindOf(int32_t dtype) { return kDtypes[dtype].kind; }
int64_t BytesOf(int32_t dtype) { return kDtypes[dtype].bytes; }
const char* NameOf(int32_t dtype) { return kDtypes[dtype].name; }

int32_t DtypeOf(const std::string& name) {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (name == kDtypes[i].name) return static_cast<int32_t>(i);
  }
  Raise(PyExc_ValueError, ("no type '" + name + "'").c_str());
}

}  // namespace millrace::python
