"""Kernel names of libraries and engines, and every one of the real samples."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from rooflens.core.op import DType, OpKind
from rooflens.sources.kernel_names import LONGEST, kernel_class, kernel_dtype, short_name
from tests.sources.shared import traces

NATIVE = "void at::native::vectorized_elementwise_kernel<4, at::native::{0}, std::array<char*, 2ul> >(int, T2, T3)"

NAMES = {
    OpKind.GEMM: (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_segment_k_off_kernel__5x_cublas",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8>(Params)",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int> > >(P)",
        "nvjet_tst_192x8_64x8_4x1_v_bz_TNT",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
        "volta_sgemm_64x64_tn",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN_K1",
        "void wvSplitK_hf_sml_<__hip_bfloat16, 32, 4, 16, 8, 4, 4>(int, int, int)",
        "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, int, cublasGemvParamsEx<int> >(T13)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>(float*)",
        "void marlin::Marlin<half, 4, 8, 128>(int4 const*)",
        "mul_mat_vec_q<(ggml_type)12, 1, false>",
        "triton_tem_fused_mm_3",
        "bmm_Bfloat16_E4m3E4m3_Fp32_t128x128x128u2_s4_et64x128_m256x128x32",
    ),
    OpKind.ATTENTION: (
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, cutlass::bfloat16_t> >(Flash_fwd_params)",
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::Mainloop> > >()",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(AttentionKernel<cutlass::bfloat16_t>)",
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
        "void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, 128>(__hip_bfloat16*)",
        "kernel_unified_attention_2d",
        "attn_fwd",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<1, 128>(Params)",
        "mla_a16w16_qh16_m16x4_n16x1_coex0_mask1",
        "_fwd_grouped_kernel_stage1_mla_decode",
    ),
    OpKind.EXPERTS: (
        "fused_moe_kernel",
        "void vllm::moe::topkGatingSoftmax<8, 128, 4, 16>(float const*)",
        "void cutlass::device_kernel<GroupProblemShape<int> >",
        "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_swiGlu_dynBatch_sm100f",
        "void moe::dev::routing::routingIndicesHistogramKernel<cutlass::bfloat16_t>()",
    ),
    OpKind.NORM: (
        "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int)",
    ),
    OpKind.COLLECTIVE: (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
    ),
    OpKind.COPY: (
        "Memcpy DtoD (Device -> Device)",
        "[CUDA memcpy HtoD]",
        "Memset (Device)",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 4, 64, 64>()",
        NATIVE.format("bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)"),
        NATIVE.format("FillFunctor<float>"),
        "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long>()",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>()",
    ),
    OpKind.ROTARY: ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "_triton_mrope_forward"),
    OpKind.ACTIVATION: (
        "void vllm::act_and_mul_kernel<c10::BFloat16, &silu_kernel<c10::BFloat16>, true>(c10::BFloat16*)",
        NATIVE.format("GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)"),
    ),
    OpKind.SOFTMAX: ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*)",),
    OpKind.SAMPLING: (
        "void at::native::reduce_kernel<512, 1, ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int> >()",
        "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>(float*)",
        "void at::native::mbtopk::radixFindKthValues<float>()",
    ),
    OpKind.EMBEDDING: ("void embedding_kernel<float>(float*)",),
    OpKind.REDUCTION: ("void at::native::reduce_kernel<512, 1, ReduceOp<float, MeanOps<float, float> > >()",),
    OpKind.POINTWISE: (
        NATIVE.format("CUDAFunctor_add<c10::BFloat16>"),
        "triton_poi_fused_add_cos_sin_0",
        "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>(c10::Float8_e4m3fn*)",
        "void tensorrt_llm::kernels::quantize_with_block_size<2, __nv_bfloat16>(int, flashinfer::QuantizationSFLayout)",
        NATIVE.format("masked_fill_kernel(at::TensorIterator&, c10::Scalar const&)"),
    ),
    OpKind.SCAN: ("void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<128>>()", "_chunk_scan_fwd_kernel"),
    OpKind.CONVOLUTION: ("void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4>>()",),
    OpKind.OTHER: ("my_kernel", "", "resolve_future_token_ids_kernel"),
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_what_a_kernel_is(kind: OpKind, name: str) -> None:
    assert kernel_class(name) is kind


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", DType.BF16),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_ffma", DType.FP32),
        ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x256x8", DType.FP16),
        ("volta_sgemm_64x64_tn", DType.FP32),
        ("fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKv", DType.FP8),
        ("paged_attention<__hip_bfloat16, (vllm::Fp8KVCacheDataType)0>", DType.BF16),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64", DType.BF16),
        ("Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT16x16x128", DType.FP32),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<long>>(int)", None),
        ("attn_fwd", None),
    ],
)
def test_the_dtype_that_a_name_tells(name: str, dtype: DType | None) -> None:
    assert kernel_dtype(name) is dtype


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<Type<2u>, 4>(char*)", "CatArrayBatchedCopy"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn>(P)", "cutlass_80_simt_sgemm_128x32_8x5_nn"),
        ("enable_if<!T7, void>::type kernel<int, cublasGemvParamsEx<int>, float>(T13)", "cublasGemvParamsEx"),
        ("std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
         "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)", "fused_add_rms_norm_kernel"),
        ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256EEvPT0_", "add_rmsnorm_quant_kernel"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllGather_RING_LL"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
        ("attn_fwd", "attn_fwd"),
        ("_Z9999short", "_Z9999short"),
        ("void at::native::(anonymous namespace)::foo_kernel<at::native::Bar<4>, 4>(int, char*)", "foo_kernel"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x32x256_MI16x16x1_SN_L",
         "Cijk_Alik_Bljk_BBS_BH MT64x32x256"),
        ("Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT16x16x128_MI16x16x1", "Cijk_Ailk_Bljk_S_B MT16x16x128"),
        ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3", "triton_red_fused__to_copy_add_...mul_pow_rsqrt_3"),
        ("triton_poi_fused_mul_silu_1", "triton_poi_fused_mul_silu_1"),
        ("bad\x1b[31mname", "bad?[31mname"),
        ("x" * 500, "x" * 30 + "..." + "x" * 15),
        ("", ""),
    ],
)  # fmt: skip
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short
    assert len(short_name(name)) <= LONGEST


PRODUCTS = re.compile(r"gemm|cijk|nvjet|^bmm_|cublas", re.IGNORECASE)
"""What is a product beyond doubt; of attention and experts the names hold none of these but `bmm_`."""


def sampled() -> Counter[str]:
    """Microseconds of every kernel and copy of the samples, by name."""
    found: Counter[str] = Counter()
    for path in sorted(traces("kineto").glob("*.gz")):
        for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
            if event.get("ph") == "X" and event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
                found[event["name"]] += event.get("dur", 0)
    query = (
        "SELECT value, SUM(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL k "
        "JOIN StringIds s ON s.id = k.demangledName GROUP BY 1"
    )
    for path in sorted(traces("nsys").glob("*.sqlite")):
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
            for name, nanoseconds in connection.execute(query):
                found[name] += nanoseconds / 1e3
    return found


def test_every_kernel_of_the_samples() -> None:
    """No product is taken for something else; a kernel of 7 us in 591 ms is not known."""
    names = sampled()
    assert len(names) > 150
    for name in names:
        if PRODUCTS.search(name):
            expected = OpKind.EXPERTS if "dynBatch" in name else OpKind.GEMM
            assert kernel_class(name) is expected, name
    unknown = {short_name(name): spent for name, spent in names.items() if kernel_class(name) is OpKind.OTHER}
    assert set(unknown) == {"resolve_future_token_ids_kernel"}
    assert sum(unknown.values()) < 1e-4 * sum(names.values())
