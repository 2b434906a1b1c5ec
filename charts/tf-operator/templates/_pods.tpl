{{/* What the platform asks of pods, whatever runs in them: the operator, a migration, the test of a release. */}}

{{/* Fields of a pod's spec that say where it runs, and as whom. */}}
{{- define "tf-operator.placement" -}}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .Values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" .Values.hostNetwork) }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "tf-operator.podSecurity" . | nindent 2 }}
{{- end -}}

{{/*
The labels of a hook's pod, with those of the values, but without a sidecar of Istio, which would never end. Takes the root
context and its own, as text.
*/}}
{{- define "tf-operator.hookPodLabels" -}}
{{- $given := omit ((index . 0).Values.podLabels | default dict) "sidecar.istio.io/inject" -}}
{{- merge $given (index . 1 | fromYaml) (dict "sidecar.istio.io/inject" "false") | toYaml -}}
{{- end -}}

{{/* Egress of a NetworkPolicy, for pods that speak to the API server. */}}
{{- define "tf-operator.egress" -}}
# By port only: nobody knows the addresses of the API server beforehand.
- ports:
    {{- range .Values.networkPolicy.apiServerPorts }}
    - port: {{ . }}
      protocol: TCP
    {{- end }}
- ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- end -}}

{{/*
Lets the pod of a hook reach the API server where nothing is allowed unless a policy says so; it comes and goes with the
hook. Takes the root context, the name and the namespace of both, the labels of both, and the annotations of the hook.
*/}}
{{- define "tf-operator.hookNetworkPolicy" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ index . 1 | quote }}
  namespace: {{ index . 2 | quote }}
  labels:
    {{- index . 3 | nindent 4 }}
  annotations:
    {{- index . 4 | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- $labels := index . 3 | fromYaml }}
      {{- pick $labels "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" | toYaml | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress: []
  egress:
    {{- include "tf-operator.egress" $root | nindent 4 }}
{{- end }}
{{- end -}}
