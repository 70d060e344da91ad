// A program in Rust, without a crate, that reads batches through millrace.h. It proves that the
// interface needs nothing of C but its calls: no macro, no inline function, no variable.
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_void};
use std::ptr::{null, null_mut};

#[repr(C)]
struct Info {
    struct_size: usize,
    index: u64,
    epoch: u64,
    rows: i64,
    valid_rows: i64,
    global_valid_rows: i64,
    first_global_row: i64,
    ends_epoch: i32,
    num_tensors: i32,
    num_damaged: i64,
}

#[repr(C)]
struct Tensor {
    struct_size: usize,
    name: *const c_char,
    data: *mut c_void,
    bytes: u64,
    dtype: i32,
    rank: i32,
    shape: [i64; 8],
}

enum MrError {}
enum MrPlan {}
enum MrLoader {}
enum MrBatch {}

#[link(name = "millrace")]
extern "C" {
    fn mr_abi_version() -> u32;
    fn mr_error_code(error: *const MrError) -> i32;
    fn mr_error_message(error: *const MrError) -> *const c_char;
    fn mr_error_free(error: *mut MrError);
    fn mr_plan_from_text(
        text: *const c_char, size: usize, origin: *const c_char, names: *const *const c_char,
        values: *const *const c_char, num_variables: usize, plan: *mut *mut MrPlan,
    ) -> *mut MrError;
    fn mr_plan_free(plan: *mut MrPlan);
    fn mr_loader_open(
        plan: *const MrPlan, context: *mut c_void, options: *const c_void,
        loader: *mut *mut MrLoader,
    ) -> *mut MrError;
    fn mr_loader_next(
        loader: *mut MrLoader, timeout_ns: i64, batch: *mut *mut MrBatch, outcome: *mut i32,
    ) -> *mut MrError;
    fn mr_loader_free(loader: *mut MrLoader);
    fn mr_batch_info(batch: *const MrBatch, info: *mut Info) -> *mut MrError;
    fn mr_batch_tensor(batch: *const MrBatch, index: usize, tensor: *mut Tensor) -> *mut MrError;
    fn mr_batch_release(batch: *mut MrBatch);
}

fn check(error: *mut MrError) -> Result<(), (i32, String)> {
    if error.is_null() {
        return Ok(());
    }
    unsafe {
        let text = CStr::from_ptr(mr_error_message(error)).to_string_lossy().into_owned();
        let code = mr_error_code(error);
        mr_error_free(error);
        Err((code, text))
    }
}

// Returns the sum of the valid numbers, and the batches.
unsafe fn sum(text: &str) -> Result<(i64, u64), (i32, String)> {
    let origin = CString::new("rust").unwrap();
    let mut plan = null_mut();
    let bytes = text.as_ptr() as *const c_char;
    check(mr_plan_from_text(bytes, text.len(), origin.as_ptr(), null(), null(), 0, &mut plan))?;
    let mut loader = null_mut();
    let opened = check(mr_loader_open(plan, null_mut(), null(), &mut loader));
    mr_plan_free(plan);
    opened?;
    let (mut sum, mut batches) = (0, 0);
    loop {
        let (mut batch, mut outcome) = (null_mut(), 0);
        check(mr_loader_next(loader, -1, &mut batch, &mut outcome))?;
        if batch.is_null() {
            break;
        }
        let mut info: Info = std::mem::zeroed();
        info.struct_size = std::mem::size_of::<Info>();
        check(mr_batch_info(batch, &mut info))?;
        let mut tensor: Tensor = std::mem::zeroed();
        tensor.struct_size = std::mem::size_of::<Tensor>();
        check(mr_batch_tensor(batch, 0, &mut tensor))?;
        let numbers = std::slice::from_raw_parts(tensor.data as *const i64, info.rows as usize);
        sum += numbers[..info.valid_rows as usize].iter().sum::<i64>();
        batches += 1;
        mr_batch_release(batch);
    }
    mr_loader_free(loader);
    Ok((sum, batches))
}

fn main() {
    unsafe {
        assert_eq!(mr_abi_version() >> 16, 1);
        let numbers = "stage { range { count: 1000 } } stage { batch { size: 64 } }";
        assert_eq!(sum(numbers), Ok((499500, 16)));
        let (code, text) = sum("stage { nothing {} }").unwrap_err();
        assert_eq!(code, 3);
        assert!(text.starts_with("rust:1:"), "{}", text);
    }
    println!("read from Rust");
}
