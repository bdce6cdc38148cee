#!/bin/sh
# test_abi.sh BUILD - programs compiled against this version's headers go on working: what the headers
# promise is that of the committed baseline, tools/abi.txt, or has only grown. Changes of a copy of the
# headers show that those which would break a program are noticed, and that growing is none.
. tests/test.sh
command -v python3 >/dev/null && command -v abidiff >/dev/null || {
    skip abi "no python3, or no abidiff (Debian: abigail-tools)"
    test_end
    exit
}
abi() { python3 tools/abi.py "$@" >"$scratch/.said" 2>&1; }
check the_headers_keep_what_the_baseline_promises abi check
cat "$scratch/.said"

changed() { # changed FILE SED-SCRIPT: the verdict on a copy of the headers with this change; 9: it changes nothing
    rm -rf "$scratch/include"
    cp -r include "$scratch/include"
    sed -i -E "$2" "$scratch/include/$1"
    cmp -s "include/$1" "$scratch/include/$1" && return 9
    abi check "$scratch/include"
}
breaks() {
    changed "$@"
    [ $? -eq 1 ]
}
check a_field_in_the_middle_breaks breaks quern.h 's/^    const char \*device; /    int more;\n&/'
check a_field_that_goes_breaks breaks quern_ops_nn.h '/^    int64_t groups; /d'
check a_field_of_another_type_breaks breaks quern_nn.h 's/^    double epsilon; /    float epsilon; /'
check another_argument_breaks breaks quern_ops.h 's/qn_gelu\(qn_tensor \*x\)/qn_gelu(int x)/'
check another_value_of_an_enum_breaks breaks quern.h 's/QN_F64 = 12/QN_F64 = 13/'
check a_function_that_goes_breaks breaks quern_nn.h '/^QN_API qn_tensor \*qn_layer_forward/d'
check a_field_at_the_end_of_options_is_fine changed quern.h 's/^\} qn_save_options;/    int64_t more;\n&/'
check a_field_in_what_fills_up_the_struct_breaks breaks quern_ops_nn.h 's/^\} qn_attention_options;/    bool more;\n&/'
check a_field_at_the_end_of_results_is_fine changed quern.h 's/^\} qn_stats;/    uint64_t more;\n&/'
check a_new_function_is_fine changed quern.h \
    's/^QN_API const char \*qn_version/QN_API int qn_newest(void);\n&/'
check a_new_dtype_is_fine changed quern.h 's/QN_F64 = 12/QN_F64 = 12, QN_F8 = 13/'
test_end
